"""The socket pair between a runner and its own worker: length-prefixed JSON (R37).

Messages are hints; the rows decide.  So sending never blocks: what does not fit into
the socket waits here for the next chance.
"""

from __future__ import annotations

import json
import struct
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import socket

_LENGTH: Final = struct.Struct("<I")
Message = dict[str, Any]


class Channel:
    """One end of the pair; sending is safe in threads."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over *sock*."""
        sock.setblocking(False)  # noqa: FBT003 - its name says it
        self._socket = sock
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._lock = threading.Lock()
        self.is_closed = False

    def fileno(self) -> int:
        """Return the descriptor, for a selector."""
        return self._socket.fileno()

    def send(self, kind: str, **fields: object) -> None:
        """Send one message, now or as soon as there is room."""
        body = json.dumps({"kind": kind, **fields}).encode()
        with self._lock:
            self._outgoing += _LENGTH.pack(len(body)) + body
            self._flush()

    def flush(self) -> bool:
        """Send what waits; return whether all is gone."""
        with self._lock:
            return self._flush()

    def _flush(self) -> bool:
        try:
            while self._outgoing:
                sent = self._socket.send(self._outgoing)
                del self._outgoing[:sent]
        except BlockingIOError:
            return False
        except OSError:
            self.is_closed = True
            self._outgoing.clear()
        return True

    def receive(self) -> list[Message]:
        """Return the messages that have arrived; sets ``is_closed`` at the end."""
        try:
            while True:
                piece = self._socket.recv(65_536)
                if not piece:
                    self.is_closed = True
                    break
                self._incoming += piece
        except BlockingIOError:
            pass
        except OSError:
            self.is_closed = True
        return list(self._messages())

    def _messages(self) -> list[Message]:
        messages = []
        while len(self._incoming) >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._incoming)
            end = _LENGTH.size + size
            if len(self._incoming) < end:
                break
            messages.append(json.loads(self._incoming[_LENGTH.size : end]))
            del self._incoming[:end]
        return messages

    def close(self) -> None:
        """Close this end."""
        self.is_closed = True
        self._socket.close()
