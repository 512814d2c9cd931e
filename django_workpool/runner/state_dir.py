"""The directory of begin marks: this user's alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from django_workpool.exceptions import WorkpoolConfigError


def make_state_dir(name: str) -> Path:
    """Make the directory, mode 0700, unless it is there; return it.

    Raises:
        WorkpoolConfigError: It belongs to somebody else, or others may write there:
            what had begun would then be theirs to say.
    """
    path = Path(name)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    others_write = bool(found.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    if not path.is_dir() or found.st_uid != os.getuid() or others_write:
        raise WorkpoolConfigError(
            "WORKPOOL_STATE_DIR",
            name,
            "Name a directory of this user's own that nobody else may write.",
        )
    return path
