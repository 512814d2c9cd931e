"""Who touches which table; a change here is a decision about the design.

R read, L lock, I insert, U update, D delete; a table that is not named must not be
touched.  L counts only where the database has row locks.  A test runs every operation
in all its scenarios and demands equality, in both directions.

Two operations that meet in one transaction add up: the first enqueue of a pool also
declares it after the commit, and a pass also cleans up.  Explaining and counting read
everything and write nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCESS: Final[Mapping[str, Mapping[str, str]]] = {
    # What code says of a pool: by a runner at its start, after the first enqueue.
    "declare": {"pool": "RIU"},
    # Operators lock each other out; the kick reads the loop.
    "update_pause": {"pool": "LRIU", "main_loop": "R"},
    "enqueue": {
        # The kick, after the commit.
        "pool": "R",
        "main_loop": "R",
        "work": "I",
        "pending_start": "I",
    },
    "cancel": {
        # The kick, after the commit.
        "pool": "R",
        "main_loop": "R",
        # The status, in one query: what has ended cannot be canceled.
        "work": "R",
        "pending_start": "R",
        "in_progress_work": "R",
        "completed_work": "R",
        "pending_cancelation": "RI",
    },
    "pass": {
        # Inserted if its declaration never reached the database (R35).
        "pool": "RI",
        "main_loop": "LRIU",
        # Restarts after the death of a process are counted in the work.
        "work": "RU",
        "pending_start": "RID",
        "pending_completion": "RD",
        "pending_cancelation": "RD",
        "in_progress_work": "LRIUD",
        # Read for the age of the oldest, which says whether to clean up.
        "completed_work": "RI",
        "worker": "R",
    },
    "run_work": {
        # The level of the events; and the kick.
        "pool": "R",
        "main_loop": "R",
        "work": "R",
        # What has not begun is given back.
        "pending_start": "I",
        "in_progress_work": "LRD",
        # Read back after an error on COMMIT.
        "pending_completion": "RI",
        "pending_cancelation": "R",
        # The events of works that ended without a worker are told by one.
        "completed_work": "R",
    },
    # Processes that come and go, and the backstop that looks at all pools (R35).
    "worker_life": {
        "pool": "R",
        "main_loop": "R",
        "pending_start": "R",
        "pending_completion": "R",
        "pending_cancelation": "R",
        "in_progress_work": "R",
        "completed_work": "R",
        "worker": "RIU",
    },
    "status_result": {
        "work": "R",
        "pending_start": "R",
        # A request that no pass has seen yet counts as requested.
        "pending_cancelation": "R",
        "in_progress_work": "R",
        "completed_work": "R",
    },
    "cleanup": {
        "work": "D",
        "completed_work": "RD",
        # Of processes that ended long ago, and that no work names.
        "in_progress_work": "R",
        "worker": "D",
    },
}
