"""Found by autodiscovery, in runners and workers too."""

from __future__ import annotations

from tests.app import codec_functions, functions

__all__ = ["codec_functions", "functions"]
