"""Internal.  What may happen in a pool: the manual of the pass.

No module here makes a thread, sleeps, or reads the clock of this machine.

**Data flow.**  ``enqueue`` inserts ``Work`` and ``PendingStart`` in the caller's
transaction and kicks after its commit.  A pass moves the row to ``InProgressWork``,
which gives the work a lane and a worker.  The worker fetches it, runs it and inserts a
``PendingCompletion``; a mutation does so inside its own transaction, fenced by its
hand-out.  The next pass consumes the completion: ``CompletedWork`` is the terminal
record, and the lane is free in the same transaction.  Cleanup deletes ``Work`` and
``CompletedWork`` when the pool's ``status_ttl`` is over.

**A pass** (``loop``) is one transaction, serial per pool by the lock on ``MainLoop``:
lock, load a ``Snapshot`` (``load``), ``plan`` it (``planner``), apply the plan in bulk
(``phases``), commit, hand out.  It never waits for an executor: rows that somebody else
holds are skipped and left, with the request that concerned them, to the next pass.

**The order of phases** is completions, cancelations, recovery, starts, cleanup, next.
Completions come first, so that what ended is never canceled or lost; starts come last,
so that the pass that frees a slot also fills it.

**Lock order**: ``main_loop``, then ``in_progress_work`` by key.  Two passes of one pool
never meet; a mutation that is finishing holds its one in-progress row and waits for
nothing else.

**Invariants.**  A work has exactly one row among ``PendingStart``, ``InProgressWork``
and ``CompletedWork``.  Occupancy is the number of distinct lanes in ``InProgressWork``,
counted when it is asked for.  Hand-out numbers only rise and are never used again.  A
terminal record never changes.

**Who touches which table** is the constant ``access.ACCESS``; a test holds the code to
it.
"""
