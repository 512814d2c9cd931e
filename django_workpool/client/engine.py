"""The way to the engine, taken when a method is used: it imports the models."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def engine(module: str) -> Any:
    """Return a module of the engine."""
    return import_module(f"django_workpool.engine.{module}")
