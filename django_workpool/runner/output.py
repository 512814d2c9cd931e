"""Where runner and workers write: stderr, if the project has no handler of its own."""

from __future__ import annotations

import logging

from django_workpool.logs import REPORT

_LEVELS = {0: logging.ERROR, 1: logging.WARNING, 2: logging.INFO, 3: logging.DEBUG}


def log_to_stderr(verbosity: int) -> None:
    """Give our loggers a handler, if nobody did; *verbosity* as for any command."""
    logging.addLevelName(REPORT, "REPORT")
    logger = logging.getLogger("django_workpool")
    if logger.hasHandlers():
        return
    handler = logging.StreamHandler()
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    )
    logger.addHandler(handler)
    logger.setLevel(_LEVELS.get(verbosity, logging.DEBUG))
