"""The first lines of a worker process: signals, its runner, Django.

Started clean by its runner, a worker dies with it: by the parent-death signal here, and
by the end of the socket in ``worker`` (protocol R27).
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import signal
import socket
import sys
from contextlib import suppress

import django

from django_workpool.runner.channel import Channel
from django_workpool.runner.config import Config

PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its runner's main thread is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # It may have died before the signal was armed.
    if os.getppid() != parent:
        os._exit(1)


def main(descriptor: int, text: str) -> None:
    """Run a worker on the socket *descriptor*; called by the runner's command line."""
    config = Config(**json.loads(text))
    # Ctrl-C reaches the whole group, and the runner decides.  Handlers, unlike ignored
    # signals, are not inherited by what functions start.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    die_with(config.runner_pid)
    django.setup()
    # These import models, which exist only now.
    from django_workpool import conf, failpoints  # noqa: PLC0415
    from django_workpool.runner.output import log_to_stderr  # noqa: PLC0415
    from django_workpool.runner.worker import Worker  # noqa: PLC0415

    log_to_stderr(config.verbosity)
    failpoints.arm("worker", is_allowed=conf.get_settings().allow_failpoints)
    channel = Channel(socket.socket(fileno=descriptor))
    status = 1
    try:
        status = Worker(config, channel).run()
    except BaseException:
        logging.getLogger("django_workpool.runner").exception("A worker broke")
    finally:
        # Functions may have closed these; and the threads that they left behind must
        # not hold up the end.
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(status)
