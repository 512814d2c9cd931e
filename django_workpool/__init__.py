"""Work pools for Django: functions run later, with exact limits.

The public names are loaded when they are asked for, so that importing the package
imports no model and reads no setting.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_workpool.client import Workpool
    from django_workpool.engine.current import current_work
    from django_workpool.engine.status import Result, WorkStatus
    from django_workpool.exceptions import (
        ArgumentsTooLargeError,
        InvalidArgumentsError,
        InvalidOptionError,
        NotInWorkError,
        NotRegisteredError,
        UnsafeWaitError,
        WorkerLostError,
        WorkNotFinishedError,
        WorkNotFoundError,
        WorkpoolError,
    )
    from django_workpool.options import DECLARED
    from django_workpool.registry import action, mutation, query

    __version__: str

__all__ = [  # noqa: RUF022 - sorted() as anybody would
    "ArgumentsTooLargeError",
    "DECLARED",
    "InvalidArgumentsError",
    "InvalidOptionError",
    "NotInWorkError",
    "NotRegisteredError",
    "Result",
    "UnsafeWaitError",
    "WorkNotFinishedError",
    "WorkNotFoundError",
    "WorkStatus",
    "WorkerLostError",
    "Workpool",
    "WorkpoolError",
    "action",
    "current_work",
    "mutation",
    "query",
]

_MODULES = {
    "DECLARED": "options",
    "Result": "engine.status",
    "WorkStatus": "engine.status",
    "Workpool": "client",
    "action": "registry",
    "current_work": "engine.current",
    "mutation": "registry",
    "query": "registry",
}

# Hidden from type checkers, which would accept every name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return version("django-workpool")
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}.{_MODULES.get(name, 'exceptions')}")
        value = globals()[name] = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
