"""What the message of a refusal must say."""

from __future__ import annotations


def missing(words: list[str], error: BaseException) -> list[str]:
    """Return the words that a message lacks."""
    return [word for word in words if word not in str(error)]
