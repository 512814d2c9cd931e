"""Tests that need no database."""

from __future__ import annotations
