"""Signals about works, for receivers of your own.

================  ==============================  =====================================
signal            keyword arguments               sent
================  ==============================  =====================================
work_enqueued     work_id, pool, fn_name          after the commit of the enqueue, in
                                                  the process that enqueued
work_started      work_id, pool, fn_name,         in the worker, before the function is
                  attempt                         called
work_completed    work_id, pool, fn_name,         in a worker, after the end of the work
                  attempt, status                 was committed
================  ==============================  =====================================

``sender`` is always the model ``Work``.  ``work_id`` is a UUID; ``pool`` and
``fn_name`` are text; ``attempt`` counts from 1; ``status`` is a value of
``CompletionStatus``: success, error, canceled or timeout.

Each is sent at most once, by ``send_robust``: a receiver that raises is logged and
changes no outcome.  None carries arguments or results.

``work_started`` runs in the lane of its work, which waits for the receivers.
``work_completed`` runs in a thread of its own: the slot may be given on before, as it
may before the ``on_commit`` hooks of a mutation have run.
"""

from __future__ import annotations

from django.dispatch import Signal

__all__ = ["work_completed", "work_enqueued", "work_started"]

work_enqueued = Signal()
work_started = Signal()
work_completed = Signal()
