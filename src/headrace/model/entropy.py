"""Draws entropy for ids: from the system for many ids at once, and never the same for two of them."""

import os

from headrace.model.ids import ENTROPY_BYTES

_PIECES = 400
_pieces: list[bytes] = []


def drawn_entropy(size: int) -> bytes:
    """As `os.urandom`; asking the system for each id costs more than making the id."""
    if size != ENTROPY_BYTES:
        return os.urandom(size)
    try:
        return _pieces.pop()  # one step: two threads never take the same
    except IndexError:
        drawn = os.urandom(_PIECES * ENTROPY_BYTES)
        piece, *more = [drawn[at : at + ENTROPY_BYTES] for at in range(0, len(drawn), ENTROPY_BYTES)]
        _pieces.extend(more)
        return piece


# A forked process must not make its parent's ids.
os.register_at_fork(after_in_child=_pieces.clear)
