"""Declared options, overrides and pause: everything that writes the ``Pool`` row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django_workpool import options
from django_workpool.db import clock, retry, serial
from django_workpool.db.dialect import to_duration, to_time
from django_workpool.failpoints import failpoint
from django_workpool.models import Pool
from django_workpool.planner.snapshot import PoolOptions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime


# An operator's open transaction may hold the row of a new pool: nobody waits for its
# end; what cannot be written now is written the next time.
LOCK_MS = 200
TRIES = 2


def declare(using: str, name: str) -> None:
    """Write what code declared for *name* to its row, only where it differs.

    Overrides and a pause are never touched.  Runs in a transaction of its own; the
    caller keeps it out of the user's.
    """
    wanted = options.declared_options(name)
    row = Pool.objects.using(using).filter(pk=name).first()
    if row is not None:
        wanted = {
            key: value for key, value in wanted.items() if getattr(row, key) != value
        }
        if not wanted:
            return

    def write() -> None:
        failpoint("sync.before_write")
        with serial.unit(using, lock_ms=LOCK_MS):
            _insert_missing(using, name)
            if wanted:
                Pool.objects.using(using).filter(pk=name).update(**wanted)

    retry.retried(write, using=using, tries=TRIES)


def default_row(name: str) -> Pool:
    """Return the row that a pool starts with, not saved."""
    return Pool(name=name, **{**options.DEFAULTS, **options.declared_options(name)})


def unknown(name: str) -> PoolOptions:
    """Return the options of a pool that nobody has declared yet: nothing starts."""
    row = default_row(name)
    return PoolOptions(
        name=name,
        max_parallelism=0,
        status_ttl=row.status_ttl,
        log_level=row.log_level,
    )


def insert_missing(using: str, name: str) -> None:
    """Make the row of a pool that nobody declared yet (R35), before a pass."""
    with serial.unit(using, lock_ms=LOCK_MS):
        _insert_missing(using, name)


def _insert_missing(using: str, name: str) -> None:
    row = default_row(name)
    # A rival may insert the same row: that is expected, and not an error (D6).
    Pool.objects.using(using).bulk_create([row], ignore_conflicts=True)


def update(using: str, name: str, changes: Mapping[str, Any]) -> None:
    """Override options until the override is changed, in the caller's transaction.

    Raises:
        InvalidOptionError: An unknown option or a bad value; nothing is written.
    """
    checked = {
        key: value if value is options.DECLARED else options.check(key, value)
        for key, value in changes.items()
    }
    for key in checked:
        options.check_known(key)

    def write() -> None:
        with serial.unit(using):
            row = _locked(using, name)
            overrides = {**options.overrides_of(row.overrides), **checked}
            row.overrides = options.overrides_text(
                {
                    key: value
                    for key, value in overrides.items()
                    if value is not options.DECLARED
                }
            )
            row.save(using=using, update_fields=["overrides"])

    retry.retried(write, using=using)


def pause(using: str, name: str, reason: str, until: datetime | None) -> None:
    """Start nothing more of this pool; what runs goes on."""
    _set_pause(
        using,
        name,
        paused=True,
        paused_reason=reason,
        paused_at=clock.storable(clock.now(using), using),
        paused_until=None if until is None else clock.storable(until, using),
    )


def resume(using: str, name: str) -> None:
    """Take a pause back."""
    _set_pause(
        using, name, paused=False, paused_reason="", paused_at=None, paused_until=None
    )


def _set_pause(using: str, name: str, **fields: Any) -> None:
    def write() -> None:
        with serial.unit(using):
            row = _locked(using, name)
            for key, value in fields.items():
                setattr(row, key, value)
            row.save(using=using, update_fields=list(fields))

    retry.retried(write, using=using)


def _locked(using: str, name: str) -> Pool:
    """Return the row, locked against other operators; it is made if it is missing."""
    rows = Pool.objects.using(using).select_for_update()
    row = rows.filter(pk=name).first()
    if row is None:
        _insert_missing(using, name)
        row = rows.get(pk=name)
    return row


def in_force(
    using: str,
    name: str,
    columns: tuple[Any, Any, Any, Any, Any, Any],
) -> PoolOptions:
    """Return the options in force from the columns of a raw row.

    Args:
        using: The alias that gave the row.
        name: The pool.
        columns: max_parallelism, status_ttl, log_level, overrides, paused,
            paused_until, as the driver gave them.
    """
    limit, ttl, level, text, paused, until = columns
    values = {
        "max_parallelism": limit,
        "status_ttl": to_duration(ttl),
        "log_level": level,
        **options.overrides_of(text),
    }
    return PoolOptions(
        name=name,
        max_parallelism=values["max_parallelism"],
        status_ttl=values["status_ttl"],
        log_level=values["log_level"],
        paused=bool(paused),
        paused_until=to_time(until, using),
    )


def level_in_force(level: str, overrides: str) -> str:
    """Return the log level in force from the two columns that decide it."""
    return str(options.overrides_of(overrides).get("log_level", level))
