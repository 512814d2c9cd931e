"""The demo: the whole show as people start it, and its web page."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest
from django.db import DEFAULT_DB_ALIAS, transaction
from django.urls import reverse

from demo.models import SignUp
from demo.workpools import emails
from django_workpool.models import Work
from tests.children import manage

if TYPE_CHECKING:
    from uuid import UUID

    from django.test import Client

ADDRESS = "ada@example.com"
DEMO_SECONDS = 100


def demo_environment() -> dict[str, str]:
    variables = {**os.environ, "DJANGO_SETTINGS_MODULE": "testproject.settings"}
    variables.pop("DATABASE_URL", None)
    return variables


def works() -> list[tuple[UUID, str, str]]:
    rows = Work.objects.using(DEFAULT_DB_ALIAS).for_pool(emails.name).with_status()
    # Unpacked, because the type checker knows no annotated names.
    columns = ("id", "fn_name", "kind")
    return list(rows.values_list(*columns))


@pytest.mark.vendor("sqlite")
def test_the_demo_keeps_every_promise_and_stops_cleanly() -> None:
    finished = subprocess.run(
        manage("demo"),
        env=demo_environment(),
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
        check=False,
    )

    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "ok   works: 300 of 300 succeeded" in finished.stdout
    assert "ok   mails: 100 of 100 arrived exactly once" in finished.stdout
    assert "ok   limit of counter: peak 1/1" in finished.stdout
    assert "ok   limit of emails: peak " in finished.stdout
    assert "ok   limit of scrape: peak 1/1" in finished.stdout
    assert "ok   actions: 140 of 140 began exactly once" in finished.stdout
    assert "ok   weather: 40 of 40 rows" in finished.stdout
    assert "ok   counter: rose by 160 of 160" in finished.stdout
    assert "run_workpool stopped with exit code 0." in finished.stdout


@pytest.mark.django_db(transaction=True)
def test_signing_up_enqueues_the_mail_and_shows_the_work(client: Client) -> None:
    response = client.post(reverse("demo:index"), {"email": ADDRESS})
    page = client.get(reverse("demo:index"))
    status = client.get(reverse("demo:status")).json()

    sign_up = SignUp.objects.get(email=ADDRESS)
    assert response.status_code == 302
    assert works() == [(sign_up.work_id, "send_verification", "pending")]
    assert str(sign_up.work_id) in page.content.decode()
    assert status["pools"][0]["works"][0]["id"] == str(sign_up.work_id)
    assert status["pools"][0]["works"][0]["status"] == "pending"
    assert status["pools"][0]["counts"] == emails.debug_counts()


@pytest.mark.django_db(transaction=True)
def test_a_sign_up_whose_transaction_is_rolled_back_enqueues_nothing(
    client: Client,
) -> None:
    with transaction.atomic():
        response = client.post(reverse("demo:index"), {"email": ADDRESS})
        seen_inside = len(works())
        transaction.set_rollback(True)

    assert response.status_code == 302
    assert seen_inside == 1
    assert works() == []
    assert not SignUp.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_address_that_signed_up_before_is_refused(client: Client) -> None:
    SignUp.objects.create(email=ADDRESS)

    response = client.post(reverse("demo:index"), {"email": ADDRESS})

    assert response.status_code == 200
    assert "already exists" in response.content.decode()
    assert works() == []
