#!/usr/bin/env python
"""Django's command line for the test project."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django.core.management import execute_from_command_line


def main() -> None:
    """Run one management command."""
    here = str(Path(__file__).resolve().parent)
    # Under PYTHONSAFEPATH Python leaves the script's own folder out.
    if here not in sys.path:
        sys.path.insert(0, here)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
