"""An installed app with the functions and tables that tests use."""

from __future__ import annotations
