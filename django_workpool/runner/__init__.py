"""Internal.  How it keeps happening: processes, threads, waiting.

The runner (``supervisor``, ``loops``, ``waiting``) makes passes and watches its
workers; it runs no user code.  A worker (``worker``, ``intake``, ``lanes``, ``invoke``,
``outbox``, ``marks``) executes functions: one I/O thread, threads for sync ones, one
event loop.
"""
