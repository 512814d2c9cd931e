"""Models of a project that point to ``Work`` decide what cleanup may do to it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.apps import apps
from django.db import connections, models

from django_workpool.engine.loop import has_something_to_do
from django_workpool.models import CompletedWork, Work
from django_workpool.testing import clock, drain, run_pass
from tests.app import functions
from tests.conformance.pools import fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


@pytest.fixture
def note(transactional_db: None) -> Iterator[Callable[..., type[models.Model]]]:
    """Make a model with a key to ``Work``, and take it away again."""
    made: list[type[models.Model]] = []

    def make(on_delete: Any) -> type[models.Model]:
        class Note(models.Model):
            work = models.ForeignKey(Work, on_delete=on_delete, related_name="+")

            class Meta:
                app_label = "tests_app"

            def __str__(self) -> str:
                return str(self.pk)

        made.append(Note)
        with connections["default"].schema_editor() as editor:
            editor.create_model(Note)
        return Note

    yield make

    for model in made:
        with connections["default"].schema_editor() as editor:
            editor.delete_model(model)
        del apps.all_models["tests_app"]["note"]
        apps.clear_cache()


def test_rows_that_cascade_go_with_their_work(
    note: Callable[..., type[models.Model]],
) -> None:
    model = note(models.CASCADE)
    pool = fresh(status_ttl=timedelta(hours=1))
    work = pool.enqueue_action(functions.echo)
    drain(pool.name)
    model._default_manager.create(work=work)

    with clock() as now:
        now.move(timedelta(hours=2))
        drain(pool.name)

    assert not model._default_manager.exists()
    assert not Work.objects.using("default").exists()
    assert not CompletedWork.objects.using("default").exists()


def test_a_protected_work_stays_with_its_record_and_neither_wedges_nor_spins(
    note: Callable[..., type[models.Model]],
) -> None:
    model = note(models.PROTECT)
    pool = fresh(status_ttl=timedelta(hours=1))
    kept, gone = pool.enqueue_action_batch(functions.echo, [{}, {}])
    drain(pool.name)
    model._default_manager.create(work=kept)

    with clock() as now:
        now.move(timedelta(hours=2))
        late = pool.enqueue_action(functions.echo)
        drain(pool.name)
        last = run_pass(pool.name)

    assert [kept.pk, late.pk] == sorted(
        Work.objects.using("default").values_list("pk", flat=True)
    )
    assert "success" == pool.status(kept).completion_status
    assert [None] == pool.status_batch([gone])
    assert "success" == pool.status(late).completion_status
    assert last is not None
    assert not last.is_running
    assert not has_something_to_do("default", pool.name, last)
