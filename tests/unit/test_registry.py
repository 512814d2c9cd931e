"""The registry: who gets in, who is let through, and that nothing is imported."""

from __future__ import annotations

import asyncio
import functools
import sys
from hashlib import sha256
from textwrap import dedent
from typing import TYPE_CHECKING, Any, assert_type

import pytest
from django.test import override_settings

from django_workpool import action, mutation, query, registry
from django_workpool.choices import FunctionKind
from django_workpool.exceptions import (
    InvalidArgumentsError,
    InvalidOptionError,
    NotRegisteredError,
)
from django_workpool.registry import (
    autodiscover,
    check_signature,
    handle_of,
    handles_digest,
    known_handles,
    resolve,
)
from tests.app import codec_functions
from tests.app.codec_functions import (
    Desk,
    count_letter,
    fetch_letter,
    kept_class,
    list_letters,
    nameless,
    not_registered,
    positional_default,
    positional_only,
    remember_letter,
    send_letter,
    take_anything,
    take_anything_and,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MODULE = "tests.app.codec_functions"


@pytest.fixture
def empty_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with no function, and forget those of the test."""
    fresh = registry.functions._Registered()
    monkeypatch.setattr(registry.functions, "_registered", fresh)


def defined_in(module: str, source: str) -> Any:
    """Run the definition of ``f`` as if it stood in that module."""
    namespace: dict[str, Any] = {"__name__": module}
    namespace |= {"action": action, "mutation": mutation, "query": query}
    exec(dedent(source), namespace)  # noqa: S102 -- a module that needs no file
    return namespace["f"]


def enclosing() -> Callable[[], None]:
    """Return a decorated nested function."""

    @action
    def nested() -> None: ...

    return nested


@pytest.mark.parametrize(
    ("fn", "name", "kind", "is_async"),
    [
        (send_letter, "send_letter", FunctionKind.ACTION, False),
        (fetch_letter, "fetch_letter", FunctionKind.ACTION, True),
        (count_letter, "count_letter", FunctionKind.MUTATION, False),
        (list_letters, "list_letters", FunctionKind.QUERY, False),
        (remember_letter, "remember_letter", FunctionKind.ACTION, False),
    ],
    ids=["action", "async", "mutation", "query", "cached"],
)
def test_a_registered_function_is_known_by_itself_and_by_name(
    fn: Callable[..., Any], name: str, kind: FunctionKind, is_async: bool
) -> None:
    function = handle_of(fn)

    assert function is resolve(f"{MODULE}.{name}")
    assert function.fn is fn
    assert (function.handle, function.label) == (f"{MODULE}.{name}", name)
    assert (function.kind, function.is_async) == (kind, is_async)


def test_a_decorated_function_stays_a_plain_call() -> None:
    """A17."""

    def plain(value: int) -> str:
        return str(value)

    decorated = action(plain)

    assert decorated is plain
    assert decorated(7) == "7"


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (lambda: send_letter("Rome", copies=2), "2 of '' to Rome"),
        (lambda: asyncio.run(fetch_letter("Rome")), "Rome"),
        (lambda: positional_only(1), 1),
        (lambda: positional_default(1, other=2), (1, 2)),
        (lambda: remember_letter("Rome"), "Rome"),
        (lambda: take_anything(a=1), {"a": 1}),
        (lambda: take_anything_and(1, b=2), (1, {"b": 2})),
    ],
)
def test_a_registered_function_can_be_called_directly(
    call: Callable[[], object], result: object
) -> None:
    """A17."""
    assert call() == result


def test_a_decorated_function_keeps_its_signature() -> None:
    """A17: for the type checker, too."""
    assert_type(send_letter("Rome"), str)
    assert_type(count_letter(), int)
    assert_type(list_letters(), list[str])


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (lambda: None, "tests.unit.test_registry.<lambda>"),
        (nameless, f"{MODULE}.<lambda>"),
        (enclosing(), "tests.unit.test_registry.enclosing.<locals>.nested"),
        (Desk.write, f"{MODULE}.Desk.write"),
        (Desk.sign, f"{MODULE}.Desk.sign"),
        (Desk().write, f"{MODULE}.Desk.write"),
        (functools.partial(send_letter, "Rome"), f"{MODULE}.send_letter"),
        (functools.partial(not_registered), f"{MODULE}.not_registered"),
        (not_registered, f"{MODULE}.not_registered"),
        (kept_class, f"{MODULE}.Desk"),
        (f"{MODULE}.send_letter", f"{MODULE}.send_letter"),
        (len, "builtins.len"),
        ([].append, "None.list.append"),
        (None, "builtins.NoneType object"),
        (7, "builtins.int object"),
        (Desk(), f"{MODULE}.Desk object"),
    ],
    ids=[
        "lambda",
        "decorated-lambda",
        "nested",
        "method",
        "static-method",
        "bound-method",
        "partial",
        "partial-of-unregistered",
        "unregistered",
        "class",
        "string",
        "builtin",
        "bound-builtin",
        "None",
        "int",
        "object",
    ],
)
def test_anything_else_is_refused_with_the_nearest_names(fn: object, name: str) -> None:
    """A13."""
    with pytest.raises(NotRegisteredError) as caught:
        handle_of(fn)

    assert caught.value.handle == name
    assert caught.value.close_matches
    assert set(caught.value.close_matches) <= known_handles().keys()
    assert repr(caught.value.close_matches[0]) in str(caught.value)


def test_a_misspelled_name_is_told_the_right_one() -> None:
    """A13."""
    with pytest.raises(NotRegisteredError) as caught:
        resolve(f"{MODULE}.send_leter")

    assert caught.value.close_matches[0] == f"{MODULE}.send_letter"


def test_a_decorator_on_top_of_ours_is_explained() -> None:
    """A13."""

    @functools.wraps(send_letter)
    def wrapper() -> None: ...

    with pytest.raises(NotRegisteredError, match="Another object is registered"):
        handle_of(wrapper)


@pytest.mark.parametrize(
    "handle",
    ["os.system", "antigravity.fly", "this.s", "no.such.module", "nonsense", "", "a b"],
)
def test_a_stored_name_is_only_looked_up_and_never_imported(handle: str) -> None:
    """A15."""
    before = set(sys.modules)

    with pytest.raises(NotRegisteredError, match="No such function is registered"):
        resolve(handle)

    assert set(sys.modules) == before


@pytest.mark.usefixtures("empty_registry")
def test_a_function_of_an_app_that_is_not_installed_is_refused() -> None:
    """A15."""
    fn = defined_in("tests.other.functions", "@action\ndef f(): ...")

    with pytest.raises(NotRegisteredError, match="INSTALLED_APPS"):
        handle_of(fn)
    with pytest.raises(NotRegisteredError):
        resolve("tests.other.functions.f")
    assert known_handles() == {}


@pytest.mark.usefixtures("empty_registry")
def test_the_name_of_an_installed_app_is_no_prefix() -> None:
    fn = defined_in("tests.apparel", "@action\ndef f(): ...")

    with pytest.raises(NotRegisteredError):
        handle_of(fn)


@pytest.mark.usefixtures("empty_registry")
def test_with_nothing_registered_the_refusal_names_nothing() -> None:
    with pytest.raises(NotRegisteredError) as caught:
        handle_of(send_letter)

    assert caught.value.close_matches == ()


@pytest.mark.usefixtures("empty_registry")
def test_a_module_that_is_loaded_again_replaces_its_functions() -> None:
    former = defined_in("tests.app.made_up", "@action\ndef f(): return 1")
    latter = defined_in("tests.app.made_up", "@mutation\ndef f(): return 2")

    function = resolve("tests.app.made_up.f")

    assert function is handle_of(latter)
    assert (function.fn, function.kind) == (latter, FunctionKind.MUTATION)
    with pytest.raises(NotRegisteredError, match="loaded twice"):
        handle_of(former)


@pytest.mark.usefixtures("empty_registry")
def test_the_outer_of_two_decorators_counts() -> None:
    fn = defined_in("tests.app.made_up", "@query\n@action\ndef f(): ...")

    assert handle_of(fn).kind == FunctionKind.QUERY


@pytest.mark.usefixtures("empty_registry")
@pytest.mark.parametrize(
    ("source", "option", "reason"),
    [
        ("@mutation\nasync def f(): ...", "mutation", "Transactions are synchronous"),
        ("@action\ndef f(): yield", "action", "generator"),
        ("@mutation\ndef f(): yield", "mutation", "generator"),
        ("@query\nasync def f(): yield", "query", "generator"),
    ],
    ids=["async-mutation", "generator", "generator-mutation", "async-generator"],
)
def test_a_function_that_could_never_work_is_refused_at_decoration(
    source: str, option: str, reason: str
) -> None:
    with pytest.raises(InvalidOptionError, match=reason) as caught:
        defined_in("tests.app.made_up", source)

    assert isinstance(caught.value, TypeError)
    assert (option, "tests.app.made_up.f") == (caught.value.option, caught.value.value)
    assert known_handles() == {}


@pytest.mark.usefixtures("empty_registry")
def test_a_name_that_no_column_takes_is_refused_at_decoration() -> None:
    longest = "f" * (255 - len("tests.app.made_up."))

    defined_in("tests.app.made_up", f"@action\ndef {longest}(): ...\nf = {longest}")
    with pytest.raises(InvalidOptionError, match="more than 255 characters"):
        defined_in("tests.app.made_up", f"@action\ndef {longest}f(): ...")

    assert [f"tests.app.made_up.{longest}"] == list(known_handles())


@pytest.mark.usefixtures("empty_registry")
def test_known_handles_tell_what_a_function_occupies() -> None:
    defined_in("tests.app.made_up", "@action\nasync def f(): ...")
    defined_in("tests.app.composed", "@query\ndef f(): ...")
    defined_in("elsewhere", "@action\ndef f(): ...")

    known = known_handles()

    assert list(known.items()) == [
        ("tests.app.composed.f", "thread"),
        ("tests.app.made_up.f", "coroutine"),
    ]


def test_equal_handles_have_an_equal_digest() -> None:
    known = known_handles()
    backwards = dict(reversed(known.items()))

    assert handles_digest(known) == handles_digest(backwards)
    assert handles_digest({"a.f": "thread"}) == sha256(b"a.f thread").hexdigest()


@pytest.mark.parametrize(
    "other",
    [{}, {"a.f": "coroutine"}, {"a.g": "thread"}, {"a.f": "thread", "b.f": "thread"}],
    ids=["none", "lane", "name", "more"],
)
def test_other_handles_have_another_digest(other: dict[str, str]) -> None:
    assert handles_digest({"a.f": "thread"}) != handles_digest(other)


@pytest.mark.usefixtures("empty_registry")
def test_workpools_modules_of_installed_apps_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A16."""
    package = tmp_path / "found_by_autodiscover"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "workpools.py").write_text(
        "from django_workpool import action\n@action\ndef f(): ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    with override_settings(INSTALLED_APPS=["found_by_autodiscover"]):
        autodiscover()
        known = known_handles()
    monkeypatch.delitem(sys.modules, "found_by_autodiscover.workpools")
    monkeypatch.delitem(sys.modules, "found_by_autodiscover")

    assert known == {"found_by_autodiscover.workpools.f": "thread"}


@pytest.mark.parametrize(
    ("fn", "args"),
    [
        (send_letter, {"address": "Rome"}),
        (send_letter, {"address": "Rome", "subject": "Hi", "copies": 3}),
        (count_letter, {}),
        (take_anything, {}),
        (take_anything, {"self": 1, "not an identifier": 2, "": 3}),
        (take_anything_and, {"first": 1, "second": 2}),
        (positional_default, {"other": 1}),
        (remember_letter, {"address": "Rome"}),
    ],
)
def test_arguments_that_fit_are_accepted(
    fn: Callable[..., Any], args: dict[str, Any]
) -> None:
    """L2."""
    check_signature(handle_of(fn), args)


@pytest.mark.parametrize(
    ("fn", "args", "path", "found"),
    [
        (send_letter, {}, 'args["address"]', "nothing"),
        (send_letter, {"subject": "Hi"}, 'args["address"]', "nothing"),
        (
            send_letter,
            {"address": "", "addresses": ""},
            'args["addresses"]',
            "does not take",
        ),
        (count_letter, {"x": 1}, 'args["x"]', "does not take"),
        (take_anything_and, {"second": 2}, 'args["first"]', "nothing"),
        (positional_only, {"value": 1}, 'args["value"]', "positional-only"),
        (positional_only, {}, 'args["value"]', "positional-only"),
        (positional_default, {"value": 1}, 'args["value"]', "positional-only"),
    ],
    ids=[
        "missing",
        "missing-beside-a-default",
        "unknown",
        "unknown-of-none",
        "missing-beside-kwargs",
        "positional-only",
        "positional-only-missing",
        "positional-only-default",
    ],
)
def test_arguments_that_do_not_fit_are_refused_naming_the_parameter(
    fn: Callable[..., Any], args: dict[str, Any], path: str, found: str
) -> None:
    """L2."""
    function = handle_of(fn)

    with pytest.raises(InvalidArgumentsError, match=found) as caught:
        check_signature(function, args)

    assert caught.value.path == path
    assert function.handle in str(caught.value)


def test_the_parameters_that_there_are_stand_in_the_refusal() -> None:
    """L2."""
    with pytest.raises(InvalidArgumentsError, match="address, copies, subject"):
        check_signature(handle_of(send_letter), {})
    with pytest.raises(InvalidArgumentsError, match="by keyword: nothing"):
        check_signature(handle_of(count_letter), {"x": 1})


def test_a_signature_is_read_once() -> None:
    function = handle_of(codec_functions.send_letter)

    assert function.parameters is function.parameters
