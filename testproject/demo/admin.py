"""The demo's own tables in the admin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin

from demo.models import Counter, SignUp, Weather

if TYPE_CHECKING:
    SignUpAdminBase = admin.ModelAdmin[SignUp]
    WeatherAdminBase = admin.ModelAdmin[Weather]
    CounterAdminBase = admin.ModelAdmin[Counter]
else:
    SignUpAdminBase = WeatherAdminBase = CounterAdminBase = admin.ModelAdmin


@admin.register(SignUp)
class SignUpAdmin(SignUpAdminBase):
    """Who signed up, and who followed the link of the mail."""

    list_display = ("email", "work_id", "created_at", "verified_at")


@admin.register(Weather)
class WeatherAdmin(WeatherAdminBase):
    """What was scraped."""

    list_display = ("city", "temperature", "scraped_at")


@admin.register(Counter)
class CounterAdmin(CounterAdminBase):
    """Where the counters stand."""

    list_display = ("name", "value")
