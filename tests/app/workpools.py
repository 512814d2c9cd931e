"""Found by autodiscovery, in runners and workers too."""

from __future__ import annotations

from tests.app import (
    broken_functions,
    codec_functions,
    engine_functions,
    enqueue_functions,
    functions,
    life_functions,
    report_functions,
    rule_functions,
)

__all__ = [
    "broken_functions",
    "codec_functions",
    "engine_functions",
    "enqueue_functions",
    "functions",
    "life_functions",
    "report_functions",
    "rule_functions",
]
