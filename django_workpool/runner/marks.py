"""Begin marks: which works of a worker had begun, readable after its death (R21).

A small mapped file: one store a mark and no input or output.  The kernel keeps what a
killed process has written.  A record is written first and its flag last; a mark stays
until the completion is committed, and no mark is overwritten before.
"""

from __future__ import annotations

import mmap
import struct
import threading
from typing import TYPE_CHECKING, Final
from uuid import UUID

from django_workpool.failpoints import failpoint

if TYPE_CHECKING:
    from pathlib import Path

    from django_workpool.engine.complete import Key

# flag (1 byte), padding, work id, hand-out
_RECORD: Final = struct.Struct("<B7x16sq")
_BODY: Final = struct.Struct("<16sq")
_BODY_OFFSET: Final = 8


class Marks:
    """The marks of this worker; safe in threads."""

    def __init__(self, path: Path, size: int) -> None:
        """Make the file *path* with room for *size* marks."""
        self.path = path
        with path.open("w+b") as file:
            file.truncate(size * _RECORD.size)
            self._memory = mmap.mmap(file.fileno(), size * _RECORD.size)
        self._free = list(range(size - 1, -1, -1))
        self._places: dict[Key, int] = {}
        self._lock = threading.Condition()

    def set(self, key: Key) -> None:
        """Mark that *key* begins; waits while every place is taken.

        A mutation that is run again is marked already.
        """
        failpoint("mark.before")
        with self._lock:
            if key in self._places:
                return
            self._lock.wait_for(lambda: self._free)
            place = self._free.pop()
            self._places[key] = place
        offset = place * _RECORD.size
        _BODY.pack_into(self._memory, offset + _BODY_OFFSET, key[0].bytes, key[1])
        self._memory[offset] = 1
        failpoint("mark.after")

    def clear(self, key: Key) -> None:
        """Remove a mark: its completion is committed."""
        with self._lock:
            place = self._places.pop(key, None)
            if place is None:
                return
            self._memory[place * _RECORD.size] = 0
            self._free.append(place)
            self._lock.notify()

    def close(self) -> None:
        """Unmap the file; it stays for whoever must read it."""
        self._memory.close()


def read(path: Path) -> list[Key] | None:
    """Return what had begun; ``None`` if that cannot be told: all counts then."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    if not content or len(content) % _RECORD.size:
        return None
    return [
        (UUID(bytes=work), hand_out)
        for flag, work, hand_out in _RECORD.iter_unpack(content)
        if flag
    ]
