"""The demo: the example of the original's README, on real servers."""

from __future__ import annotations
