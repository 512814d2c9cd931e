"""The pools of the demo and the functions that run in them."""

from __future__ import annotations

import json
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from django.conf import settings
from django.core import signing
from django.core.mail import send_mail
from django.urls import reverse

from demo import journal
from demo.models import Counter, SignUp, Weather
from django_workpool import Workpool, action, mutation

LIMITS = {"emails": 5, "scrape": 1, "counter": 1}

emails = Workpool("emails", max_parallelism=LIMITS["emails"])
scrape = Workpool("scrape", max_parallelism=LIMITS["scrape"])
counter = Workpool("counter", max_parallelism=LIMITS["counter"])

POOLS = (emails, scrape, counter)

VERIFICATION_SALT = "demo.verification"
COUNTER_NAME = "clicks"


@action
def send_verification(user_id: int) -> str:
    """Mail the verification link to somebody who signed up.

    Args:
        user_id: Key of the ``SignUp``.

    Returns:
        The address that the mail went to.
    """
    with journal.running():
        sign_up = SignUp.objects.get(pk=user_id)
        token = signing.dumps(sign_up.pk, salt=VERIFICATION_SALT)
        link = settings.DEMO_BASE_URL + reverse("demo:verify", args=[token])
        send_mail(
            subject="Please verify your address",
            message=f"Welcome! Follow this link to verify your address:\n\n{link}\n",
            from_email="demo@example.com",
            recipient_list=[sign_up.email],
        )
        return sign_up.email


@action
def scrape_city(city: str) -> dict[str, str | float]:
    """Ask the weather server about a city and keep the answer.

    The server stands only one visitor at a time, which is why the pool has limit 1.

    Returns:
        ``city`` and ``temperature`` in °C.
    """
    with journal.running():
        url = f"{settings.DEMO_WEATHER_URL}?{urlencode({'city': city})}"
        # The server is local: a proxy of the environment must not stand between.
        with build_opener(ProxyHandler({})).open(url, timeout=10) as response:
            answer = json.load(response)
        weather = Weather.objects.create(city=city, temperature=answer["temperature"])
        return {"city": city, "temperature": weather.temperature}


@mutation
def increment() -> None:
    """Add one to the counter: read, modify, write, without any lock.

    Run by hand in parallel it would lose counts.  In a pool of limit 1 it cannot.
    """
    with journal.running():
        row, _created = Counter.objects.get_or_create(name=COUNTER_NAME)
        row.value += 1
        row.save(update_fields=["value"])
