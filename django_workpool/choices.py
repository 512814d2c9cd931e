"""The closed vocabularies; stored values are contract, labels are for people."""

from __future__ import annotations

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

__all__ = [
    "CompletionStatus",
    "FunctionKind",
    "LogLevel",
    "LoopState",
    "WorkKind",
    "WorkerKind",
    "WorkerState",
]


class FunctionKind(TextChoices):
    """How a function runs: side effects, one transaction, or read only."""

    ACTION = "action", _("action")
    MUTATION = "mutation", _("mutation")
    QUERY = "query", _("query")


class LoopState(TextChoices):
    """What the main loop of a pool does next: again now, later, or when kicked."""

    RUNNING = "running", _("running")
    SCHEDULED = "scheduled", _("scheduled")
    IDLE = "idle", _("idle")


class CompletionStatus(TextChoices):
    """How a work ended."""

    SUCCESS = "success", _("success")
    ERROR = "error", _("error")
    CANCELED = "canceled", _("canceled")
    TIMEOUT = "timeout", _("timeout")


class WorkKind(TextChoices):
    """Where a work is; in progress means handed to a worker."""

    PENDING = "pending", _("pending")
    IN_PROGRESS = "in_progress", _("in progress")
    COMPLETED = "completed", _("completed")


class WorkerKind(TextChoices):
    """What a process is: a runner makes passes, a worker executes functions."""

    RUNNER = "runner", _("runner")
    WORKER = "worker", _("worker")


class WorkerState(TextChoices):
    """The life of a runner or worker; dead is written by whoever proved it."""

    STARTING = "starting", _("starting")
    READY = "ready", _("ready")
    DRAINING = "draining", _("draining")
    STOPPED = "stopped", _("stopped")
    DEAD = "dead", _("dead")


class LogLevel(TextChoices):
    """The least level at which a pool writes its events, as people know them."""

    DEBUG = "DEBUG", _("debug")
    INFO = "INFO", _("info")
    REPORT = "REPORT", _("report")
    WARNING = "WARNING", _("warning")
    ERROR = "ERROR", _("error")
