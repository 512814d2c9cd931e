"""The demo app, and the demo as a whole."""

from __future__ import annotations
