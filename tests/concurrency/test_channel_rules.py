"""Protocol R37: runner and own worker; hints, and rows that decide."""

from __future__ import annotations

import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from django_workpool.runner.channel import Channel, Message
from tests.app import functions
from tests.conformance.pools import fresh
from tests.journal import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.journal import Journal
    from tests.live import LiveRunner

pytestmark = pytest.mark.django_db(transaction=True, databases=["default"])


# --- R37 ------------------------------------------------------------------------------


@contextmanager
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    """Open a channel and the bare socket at its other end."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    try:
        yield channel, theirs
    finally:
        channel.close()
        theirs.close()


def test_r37_a_message_that_comes_in_pieces_is_read_once_it_is_whole() -> None:
    with pair() as (channel, other), pair() as (sender, wire):
        sender.send("written", pools=["a"])
        sender.send("ready")
        content = wire.recv(4096)
        other.sendall(content[:3])
        first = channel.receive()
        other.sendall(content[3:-1])
        second = channel.receive()
        other.sendall(content[-1:])
        third = channel.receive()

    assert [] == first
    assert [{"kind": "written", "pools": ["a"]}] == second
    assert [{"kind": "ready"}] == third


def test_r37_sending_to_one_who_does_not_read_blocks_nobody_and_loses_nothing() -> None:
    pools = [f"pool-{n}" for n in range(2_000)]

    with pair() as (channel, other):
        for _ in range(50):
            channel.send("written", pools=pools)
        is_full = not channel.flush()
        reader = Channel(other)
        messages: list[Message] = []

        def all_read() -> bool:
            messages.extend(reader.receive())
            channel.flush()
            return len(messages) == 50

        until(all_read, "50 messages")

    assert is_full
    assert [pools] * 50 == [message["pools"] for message in messages]


def test_r37_one_who_is_gone_is_known_to_be_gone() -> None:
    with pair() as (channel, other):
        other.close()
        channel.send("assigned")
        found = channel.receive()

    assert [] == found
    assert channel.is_closed


def test_r37_a_worker_whose_runner_says_nothing_looks_for_itself(
    live: Callable[..., LiveRunner], journal: Journal
) -> None:
    # Whoever of the two makes the pass has no word for the worker of the other.
    live("--threads", "1")
    live("--threads", "1")
    pool = fresh(max_parallelism=2)

    works = [
        pool.enqueue_action(functions.hold, {"name": name}) for name in ("one", "two")
    ]
    journal.wait_begun("one", "two")
    journal.release("one")
    journal.release("two")
    ends = [pool.wait(work, timeout=30) for work in works]

    assert ["success", "success"] == [one.completion_status for one in ends]
    assert 2 == len({one.pid for one in journal.intervals(pool.name)})
