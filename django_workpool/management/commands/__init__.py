"""The commands ``run_workpool`` and, later, ``workpool``."""
