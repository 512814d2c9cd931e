"""What people install: names, files, metadata."""

from __future__ import annotations
