"""The registered functions, and the way from a name to one and back."""

from __future__ import annotations

import difflib
import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, TypeVar

from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from django_workpool.choices import FunctionKind
from django_workpool.exceptions import (
    InvalidOptionError,
    NotRegisteredError,
)
from django_workpool.registry.signature import Parameters

__all__ = [
    "Function",
    "action",
    "autodiscover",
    "handle_of",
    "handles_digest",
    "known_handles",
    "mutation",
    "query",
    "resolve",
]

# What the column of a stored name takes.
LONGEST_HANDLE = 255

# A type variable over the whole callable keeps its signature, overloads included.
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Function:
    """A registered function.

    Attributes:
        handle: Its stored name, ``module.function``.
        fn: The callable itself, as the decorator got and returned it.
        kind: action, mutation or query.
        is_async: Whether it was written with ``async def``.
        label: Its short name for people.
    """

    handle: str
    fn: Callable[..., Any]
    kind: FunctionKind
    is_async: bool
    label: str

    @property
    def is_installed(self) -> bool:
        """Whether its module lies in an installed app."""
        return apps.get_containing_app_config(self.handle) is not None

    @functools.cached_property
    def parameters(self) -> Parameters:
        """What may be passed by keyword; worked out once."""
        return Parameters.of(self.fn)


@dataclass(frozen=True)
class _Registered:
    """Both directions of the registry; an id stays valid while its Function lives."""

    by_handle: dict[str, Function] = field(default_factory=dict)
    by_id: dict[int, Function] = field(default_factory=dict)

    def add(self, function: Function) -> None:
        former = self.by_handle.get(function.handle)
        self.by_handle[function.handle] = function
        if former is not None:
            self.by_id.pop(id(former.fn), None)
        self.by_id[id(function.fn)] = function


_registered = _Registered()


def action(fn: _F, /) -> _F:
    """Register a function with side effects; it runs in autocommit.

    Returns the very same function, plain or ``async``, so a direct call stays a plain
    call.  Lambdas, methods and nested functions are returned unregistered, and refused
    at enqueue.

    Raises:
        InvalidOptionError: A generator function, whose call runs nothing.

    Source: conformance A5, A13, A17; the seed's internal actions.
    """
    return _register(fn, FunctionKind.ACTION)


def mutation(fn: _F, /) -> _F:
    """Register a function that runs in one transaction together with its result.

    Otherwise as ``action``.

    Raises:
        InvalidOptionError: An ``async def`` or generator function.

    Source: conformance A5, D6, D8; the seed's internal mutations.
    """
    if inspect.iscoroutinefunction(fn):
        raise InvalidOptionError(
            "mutation",
            _name_of(fn),
            "Transactions are synchronous: write it with def, or make it an @action.",
        )
    return _register(fn, FunctionKind.MUTATION)


def query(fn: _F, /) -> _F:
    """Register a function that runs in a read-only transaction.

    Otherwise as ``action``.

    Raises:
        InvalidOptionError: A generator function, whose call runs nothing.

    Source: conformance A5, D12; the seed's internal queries.
    """
    return _register(fn, FunctionKind.QUERY)


def _register(fn: _F, kind: FunctionKind) -> _F:
    name = getattr(fn, "__qualname__", "")
    # A dot or a bracket in the name tells methods, nested functions and lambdas.
    if isinstance(fn, type | MethodType) or not name.isidentifier():
        return fn
    handle = f"{fn.__module__}.{name}"
    if len(handle) > LONGEST_HANDLE:
        raise InvalidOptionError(
            kind.value, handle, f"Its name has more than {LONGEST_HANDLE} characters."
        )
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidOptionError(
            kind.value, handle, "Calling a generator function runs nothing: use return."
        )
    is_async = inspect.iscoroutinefunction(fn)
    _registered.add(Function(handle, fn, kind, is_async, name))
    return fn


def handle_of(fn: object, /) -> Function:
    """Return the registration of exactly this function.

    Raises:
        NotRegisteredError: Anything else: a lambda, a nested function, a method, a
            partial, a class, a name, a wrapper around or a former version of a
            registered function, or a function of an app that is not installed.

    Source: conformance A13, faults H8.
    """
    function = _registered.by_id.get(id(fn))
    if function is not None and function.is_installed:
        return function
    name = _name_of(fn)
    if function is not None:
        problem = "Its module is in no app of INSTALLED_APPS"
    elif name in _registered.by_handle and not isinstance(fn, str):
        problem = (
            "Another object is registered under this name (a decorator on top of "
            "ours, a partial, or a module that was loaded twice)"
        )
    elif isinstance(fn, str):
        problem = "Pass the function itself, not its name"
    else:
        problem = "Only a registered function can be enqueued, which this is not"
    raise NotRegisteredError(name, _nearest(name), problem=problem)


def resolve(handle: str, /) -> Function:
    """Return the function of a stored name, by a look-up that imports nothing.

    Raises:
        NotRegisteredError: No registered function of an installed app has this name.

    Source: conformance A15, faults H8.
    """
    function = _registered.by_handle.get(handle)
    if function is None or not function.is_installed:
        raise NotRegisteredError(handle, _nearest(handle))
    return function


def known_handles() -> dict[str, str]:
    """Map each registered function of an installed app to what it occupies.

    Returns:
        Handle to ``"thread"`` or, for ``async def``, ``"coroutine"``; sorted.
    """
    functions = sorted(_registered.by_handle.items())
    return {
        handle: "coroutine" if function.is_async else "thread"
        for handle, function in functions
        if function.is_installed
    }


def handles_digest(handles: Mapping[str, str], /) -> str:
    """Return a digest that is equal, in every process, for equal known handles."""
    lines = "\n".join(f"{handle} {lane}" for handle, lane in sorted(handles.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def autodiscover() -> None:
    """Import ``workpools`` of every installed app, which registers its functions."""
    autodiscover_modules("workpools")


def _name_of(fn: object) -> str:
    """Name any object without running code of it."""
    if isinstance(fn, str):
        return fn
    if isinstance(fn, functools.partial):
        return _name_of(fn.func)
    if isinstance(fn, MethodType):
        return _name_of(fn.__func__)
    if isinstance(fn, FunctionType | BuiltinFunctionType | type):
        return f"{fn.__module__}.{fn.__qualname__}"
    return f"{type(fn).__module__}.{type(fn).__qualname__} object"


def _nearest(name: str) -> list[str]:
    # No cut-off: somebody who enqueues a lambda also wants to see what there is.
    return difflib.get_close_matches(name, known_handles(), n=3, cutoff=0.0)
