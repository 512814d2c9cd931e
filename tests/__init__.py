"""Tests of django-workpool; a package, so that ``tests.app`` is an installed app."""

from __future__ import annotations
