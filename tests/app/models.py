"""What functions leave behind in the database, for tests to look at."""

from __future__ import annotations

from django.db import models


class Effect(models.Model):
    """One trace of one execution; not unique, so that a second one is seen."""

    work_id = models.UUIDField()
    attempt = models.PositiveIntegerField()
    what = models.TextField()

    def __str__(self) -> str:
        return f"{self.what} by attempt {self.attempt} of {self.work_id}"


class Counter(models.Model):
    """A number that mutations read, change and write."""

    name = models.CharField(max_length=63, unique=True)
    value = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"
