"""Management package of the demo."""

from __future__ import annotations
