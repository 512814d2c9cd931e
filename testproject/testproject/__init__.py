"""Settings of the demo and of the tests."""

from __future__ import annotations
