"""The demo from its first to its last line."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.core.management import call_command

from demo import checks, load, report
from demo.journal import DIRECTORY_VARIABLE
from demo.processes import ChildError, ManagedProcess
from demo.servers import HOST, MailServer, WeatherServer

if TYPE_CHECKING:
    from pathlib import Path

    from django.core.management.base import OutputWrapper
    from django.core.management.color import Style

    from demo.load import Load

RUNNER_READY = "run_workpool ready"
SERVER_READY = "development server at"
FOLLOW_SECONDS = 45.0
LOGIN = "admin"


class Show:
    """Real servers, a real runner, 300 works and a verdict.

    Args:
        stdout: Where to print.
        style: Colors of the terminal.
        directory: Where the journal goes.
        port: Port of the web page, which stays up at the end; ``None`` for no page.
    """

    def __init__(
        self,
        *,
        stdout: OutputWrapper,
        style: Style,
        directory: Path,
        port: int | None,
    ) -> None:
        self._stdout = stdout
        self._style = style
        self._journal = directory / "journal"
        self._port = port

    def run(self) -> bool:
        """Play everything.

        Returns:
            Whether all promises were kept.
        """
        call_command("migrate", verbosity=0, interactive=False)
        self._journal.mkdir()
        with ExitStack() as stack:
            mail = stack.enter_context(MailServer())
            weather = stack.enter_context(WeatherServer())
            environment = self._environment(mail, weather)
            runner = ManagedProcess(
                "run_workpool", environment=environment, ready=RUNNER_READY
            )
            try:
                passed = self._play(stack, runner, mail, weather, environment)
            except (ChildError, load.LoadError) as error:
                self._fail(str(error))
                passed = False
            except Exception:
                self._show_output(runner)
                raise
        if not passed:
            self._show_output(runner)
        return passed

    @property
    def _address(self) -> str:
        return f"http://{HOST}:{self._port or 8000}"

    def _environment(self, mail: MailServer, weather: WeatherServer) -> dict[str, str]:
        return {
            "EMAIL_HOST": HOST,
            "EMAIL_PORT": str(mail.port),
            "DEMO_WEATHER_URL": weather.url,
            "DEMO_BASE_URL": self._address,
            DIRECTORY_VARIABLE: str(self._journal),
        }

    def _play(
        self,
        stack: ExitStack,
        runner: ManagedProcess,
        mail: MailServer,
        weather: WeatherServer,
        environment: dict[str, str],
    ) -> bool:
        self._write(
            f"Mail server on port {mail.port}, weather server on port "
            f"{weather.server_port}; starting run_workpool."
        )
        stack.enter_context(runner)
        if self._port is not None:
            stack.enter_context(self._web_server(environment))
            self._write(self._invitation())
        passed = self._verdict(self._work(runner), mail, weather)
        if self._port is not None and passed:
            self._serve(runner, mail)
        code = runner.stop()
        if code != 0:
            self._fail(f"run_workpool ended with exit code {code} after SIGTERM.")
            return False
        self._write("run_workpool stopped with exit code 0.")
        return passed

    def _web_server(self, environment: dict[str, str]) -> ManagedProcess:
        users = get_user_model().objects
        if not users.filter(username=LOGIN).exists():
            users.create_superuser(username=LOGIN, email="", password=LOGIN)
        return ManagedProcess(
            "runserver",
            "--noreload",
            "--insecure",
            f"{HOST}:{self._port}",
            environment=environment,
            ready=SERVER_READY,
        )

    def _work(self, runner: ManagedProcess) -> Load:
        began = time.monotonic()
        works = load.enqueue()
        seconds = time.monotonic() - began
        self._write(f"Enqueued {works.total} works in {seconds:.1f} s.")
        line = report.ProgressLine(self._stdout)
        load.follow(
            works,
            timeout=FOLLOW_SECONDS,
            check_alive=runner.check_alive,
            show=line.show,
        )
        line.finish(f"{load.progress(works)}  in {time.monotonic() - began:.1f} s")
        return works

    def _verdict(self, works: Load, mail: MailServer, weather: WeatherServer) -> bool:
        results = checks.check_all(
            works, mail=mail, weather=weather, journal_path=self._journal
        )
        self._write("")
        for result in results:
            mark = self._style.SUCCESS("ok  ") if result.passed else "FAIL"
            self._write(f"{mark} {result.text}")
        self._write("", report.counts_table(), "", report.latest_table(), "")
        failed = [result.text for result in results if not result.passed]
        if failed:
            self._fail("Not as promised: " + "; ".join(failed))
        return not failed

    def _serve(self, runner: ManagedProcess, mail: MailServer) -> None:
        mail.on_mail = self._show_mail
        pause = threading.Event()
        self._write(self._invitation(), "Ctrl-C stops.")
        try:
            while True:
                pause.wait(1.0)
                runner.check_alive()
        except KeyboardInterrupt:
            self._write("", "Stopping.")

    def _show_mail(self, address: str, text: str) -> None:
        link = next((part for part in text.split() if "://" in part), "")
        self._write(f"Mail to {address}: {link}")

    def _show_output(self, runner: ManagedProcess) -> None:
        self._write("", "The runner's last output:", runner.output or "(nothing)")

    def _invitation(self) -> str:
        return (
            f"The page is at {self._address}/ and the admin at {self._address}/admin/ "
            f"(login {LOGIN}, password {LOGIN})."
        )

    def _fail(self, text: str) -> None:
        self._write(self._style.ERROR(text))

    def _write(self, *lines: str) -> None:
        for line in lines:
            self._stdout.write(line)
        self._stdout.flush()
