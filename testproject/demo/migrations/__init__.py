"""Migrations of the demo."""

from __future__ import annotations
