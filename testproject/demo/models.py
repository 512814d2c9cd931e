"""What the demo's functions read and write."""

from __future__ import annotations

from django.db import models


class SignUp(models.Model):
    """Somebody who signed up, and the work that sends the verification mail."""

    email = models.EmailField(unique=True)
    work_id = models.UUIDField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    verified_at = models.DateTimeField(null=True, editable=False)

    def __str__(self) -> str:
        return self.email


class Weather(models.Model):
    """One answer of the weather server."""

    city = models.CharField(max_length=100)
    temperature = models.FloatField()
    scraped_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name_plural = "weather"

    def __str__(self) -> str:
        return f"{self.city}: {self.temperature} °C"


class Counter(models.Model):
    """A number that parallel enqueues must never corrupt."""

    name = models.CharField(max_length=50, unique=True)
    value = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"
