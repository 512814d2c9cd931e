"""The real servers that the demo's functions talk to, on free local ports."""

from __future__ import annotations

import asyncio
import json
import threading
import zlib
from collections import Counter
from email import message_from_bytes
from email.policy import default as default_policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import parse_qs, urlsplit

from aiosmtpd.smtp import SMTP

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from aiosmtpd.smtp import Envelope, Session

Answer = TypeVar("Answer")

HOST = "127.0.0.1"
MAIL_DELAY = 0.02
WEATHER_DELAY = 0.02


class MailServer:
    """An SMTP server in a thread that keeps what it receives.

    Attributes:
        port: Where it listens.
        arrived: How many mails each address got.
        on_mail: Called in the server's thread with address and text of each mail.
    """

    def __init__(self) -> None:
        self.port = 0
        self.arrived: Counter[str] = Counter()
        self.on_mail: Callable[[str, str], None] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="smtp")

    def __enter__(self) -> Self:
        """Start listening."""
        self._thread.start()
        self._server = self._call(self._loop.create_server(self._session, HOST, 0))
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the thread with all its connections."""
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[object, object, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def _session(self) -> SMTP:
        # A name is given because aiosmtpd would ask the resolver for one, every time.
        return SMTP(self, hostname="localhost", loop=self._loop)

    async def _close(self) -> None:
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def handle_DATA(  # noqa: N802 (the name that aiosmtpd calls)
        self, _server: SMTP, _session: Session, envelope: Envelope
    ) -> str:
        """Keep one mail; the pause makes several of them overlap."""
        await asyncio.sleep(MAIL_DELAY)
        self.arrived.update(envelope.rcpt_tos)
        if self.on_mail is not None:
            content = envelope.original_content or b""
            mail = message_from_bytes(content, policy=default_policy)
            self.on_mail(", ".join(envelope.rcpt_tos), mail.get_content())
        return "250 OK"


class WeatherServer(ThreadingHTTPServer):
    """An HTTP server that answers with the weather, and counts its visitors.

    Attributes:
        answered: Requests answered so far.
        peak: The most requests that were in work at one instant.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__((HOST, 0), WeatherHandler)
        self.answered = 0
        self.peak = 0
        self._inside = 0
        self._lock = threading.Lock()
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, name="weather")

    @property
    def url(self) -> str:
        """Where to ask; takes ``?city=``."""
        return f"http://{HOST}:{self.server_port}/weather"

    def __enter__(self) -> Self:
        """Start answering."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the thread and close the socket."""
        self.shutdown()
        self._thread.join()
        super().__exit__(kind, error, traceback)

    def temperature(self, city: str) -> float:
        """Work out an answer: the same city has always the same weather."""
        with self._lock:
            self._inside += 1
            self.peak = max(self.peak, self._inside)
        self._pause.wait(WEATHER_DELAY)
        # Counted out before the answer leaves: the visitor who has it may go at once.
        with self._lock:
            self._inside -= 1
            self.answered += 1
        return zlib.crc32(city.encode()) % 350 / 10


class WeatherHandler(BaseHTTPRequestHandler):
    """Answers one request of the weather server with JSON."""

    server: WeatherServer

    def do_GET(self) -> None:
        """Answer ``/weather?city=…``."""
        address = urlsplit(self.path)
        city = parse_qs(address.query).get("city", [""])[0]
        if address.path != "/weather" or not city:
            self.send_error(404, "Ask for /weather?city=…")
            return
        answer = {"city": city, "temperature": self.server.temperature(city)}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing: the demo prints a progress line instead."""
