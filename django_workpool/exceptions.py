"""Every error of ours.

::

    WorkpoolError                                     the root of them all
    ├── NotRegisteredError      (LookupError)         handle, close_matches
    ├── InvalidArgumentsError   (TypeError,           path, found
    │                            ValueError)
    ├── InvalidOptionError      (TypeError,           option, value
    │                            ValueError)
    ├── ArgumentsTooLargeError  (ValueError)          function, size, limit
    ├── WorkNotFoundError       (ObjectDoesNotExist)  work_id
    ├── WorkNotFinishedError    (RuntimeError)        work_id, kind
    ├── UnsafeWaitError         (RuntimeError)        pool, reason
    ├── NotInWorkError          (RuntimeError)        current_work() outside a work
    ├── WorkpoolConfigError     (ImproperlyConfigured)  setting, value, hint
    └── WorkerLostError                               recorded: worker, attempt

An error is built from its attributes and writes its own message, which says what is
wrong, shows the value, and tells what to do.  Errors travel between processes: each
one survives pickling with its attributes.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from uuid import UUID

__all__ = [
    "ArgumentsTooLargeError",
    "InvalidArgumentsError",
    "InvalidOptionError",
    "NotInWorkError",
    "NotRegisteredError",
    "UnsafeWaitError",
    "WorkNotFinishedError",
    "WorkNotFoundError",
    "WorkerLostError",
    "WorkpoolConfigError",
    "WorkpoolError",
]


class WorkpoolError(Exception):
    """The root of every error that django-workpool raises or records."""

    def __reduce__(self) -> tuple[Callable[..., WorkpoolError], tuple[Any, ...]]:
        # The default would call the constructor with the message alone.
        return _rebuild, (type(self), self.args, self.__dict__)


class NotRegisteredError(WorkpoolError, LookupError):
    """A function was named that no decorator registered in an installed app.

    Attributes:
        handle: The name that was looked for, ``module.function``.
        close_matches: The nearest registered handles, best first.
    """

    def __init__(
        self, handle: str, close_matches: Sequence[str] = (), *, problem: str = ""
    ) -> None:
        nearest = ", ".join(map(repr, close_matches))
        super().__init__(
            f"{problem or 'No such function is registered'}: {handle!r}. "
            + (f"The nearest registered names are {nearest}. " if nearest else "")
            + "Put @action, @mutation or @query on a function at the top level of a "
            "module of an installed app, and pass that very function."
        )
        self.handle = handle
        self.close_matches = tuple(close_matches)


class InvalidArgumentsError(WorkpoolError, TypeError, ValueError):
    """Arguments, or a result, do not fit the function or cannot be stored exactly.

    The message never shows a value, only where it is and of which type.

    Attributes:
        path: Where it is, as one would write it: ``args["cities"][2]``.
        found: What stands there, mostly the name of a type.
        advice: What to do.
    """

    def __init__(self, path: str, found: str, advice: str) -> None:
        # A path into a deep structure is long, and its two ends say enough.
        shown = path if len(path) <= 200 else f"{path[:100]} … {path[-60:]}"
        super().__init__(f"{shown}: found {found}. {advice}")
        self.path = path
        self.found = found
        self.advice = advice

    @classmethod
    def at(
        cls, root: str, steps: Iterable[str | int], found: str, advice: str
    ) -> InvalidArgumentsError:
        """Build the error from the keys and positions that lead to the place."""
        return cls(root + "".join(map(_subscript, steps)), found, advice)


class InvalidOptionError(WorkpoolError, TypeError, ValueError):
    """An option of a pool, of a decorator or of an enqueue was refused.

    Attributes:
        option: The name of the option.
        value: The refused value.
    """

    def __init__(self, option: str, value: object, advice: str) -> None:
        super().__init__(f"{option}={value!r} is not possible. {advice}")
        self.option = option
        self.value = value


class ArgumentsTooLargeError(WorkpoolError, ValueError):
    """The encoded arguments of one work exceed the limit.

    Attributes:
        function: The handle of the function.
        size: Bytes of the encoded arguments in UTF-8; where counting was given up,
            a lower bound that is over the limit.
        limit: The largest size allowed, in bytes.
    """

    def __init__(self, function: str, size: int, limit: int) -> None:
        super().__init__(
            f"The arguments of {function!r} are too large: {size} bytes, more than "
            f"{limit}. Store the data yourself and pass its primary key or its path."
        )
        self.function = function
        self.size = size
        self.limit = limit


class WorkNotFoundError(WorkpoolError, ObjectDoesNotExist):
    """The id names no work: it is malformed, unknown, expired or of another pool.

    Attributes:
        work_id: The id as it was given.
    """

    def __init__(self, work_id: UUID | str) -> None:
        super().__init__(
            f"There is no work {str(work_id)!r} in this pool. Check the id, the pool "
            "and its database alias; a work that ended longer ago than the pool's "
            "status_ttl is deleted."
        )
        self.work_id = work_id


class WorkNotFinishedError(WorkpoolError, RuntimeError):
    """The result of a work was asked for before its end.

    Attributes:
        work_id: The id of the work.
        kind: Where the work is: ``pending`` or ``in_progress``.
    """

    def __init__(self, work_id: UUID | str, kind: str) -> None:
        super().__init__(
            f"Work {str(work_id)!r} has no result yet: it is {kind}. Ask status() "
            "first, or wait() for its end."
        )
        self.work_id = work_id
        self.kind = kind


class UnsafeWaitError(WorkpoolError, RuntimeError):
    """Waiting here could never end, or would hold locks meanwhile.

    Attributes:
        pool: The name of the pool.
        reason: Why it is unsafe, as half a sentence.
    """

    def __init__(self, pool: str, reason: str) -> None:
        super().__init__(
            f"Waiting for a work of pool {pool!r} is refused: {reason}. Wait after "
            "the transaction and outside the works of that pool."
        )
        self.pool = pool
        self.reason = reason


class NotInWorkError(WorkpoolError, RuntimeError):
    """``current_work()`` was called where no work runs."""

    def __init__(self) -> None:
        super().__init__(
            "There is no current work here. Call current_work() only inside a "
            "function that a pool runs; a direct call of that function is not a work."
        )


class WorkpoolConfigError(WorkpoolError, ImproperlyConfigured):
    """A setting has a value that cannot be used.

    Attributes:
        setting: The name of the setting, which is also that of the variable.
        value: The value that was found.
        hint: What would be accepted.
    """

    def __init__(self, setting: str, value: object, hint: str) -> None:
        super().__init__(f"{setting} cannot be {value!r}. {hint}")
        self.setting = setting
        self.value = value
        self.hint = hint


class WorkerLostError(WorkpoolError):
    """The worker died while it ran the work; recorded as outcome, never raised.

    Attributes:
        worker: The id of the worker.
        attempt: The number of the attempt that was lost.
    """

    def __init__(self, worker: UUID | str, attempt: int) -> None:
        super().__init__(
            f"Worker {str(worker)!r} died during attempt {attempt}. Whether the "
            "function had an effect is unknown; look at the exit of that worker "
            "before running it again."
        )
        self.worker = worker
        self.attempt = attempt


def _subscript(step: str | int) -> str:
    if isinstance(step, str):
        shown = step if len(step) <= 60 else f"{step[:59]}…"
        quoted = json.dumps(shown, ensure_ascii=False)
        # A lone surrogate in a message could not be printed or logged.
        return f"[{quoted.encode(errors='backslashreplace').decode()}]"
    return f"[{step}]"


def _rebuild(
    cls: type[WorkpoolError], args: tuple[Any, ...], attributes: dict[str, Any]
) -> WorkpoolError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(attributes)
    return error
