"""How streams say that something is missing of what they have read or were to read."""

from collections.abc import Sequence

from headrace.model.errors import Refused

GO_ON = "or set option failOnDataLoss=false to go on"


def refuse(sentences: Sequence[str], things: str) -> None:
    """Say what is missing, of the first thing that something is missing of; nothing when nothing is."""
    if sentences:
        more = f" ({len(sentences) - 1:,} more {things} miss something)" if len(sentences) > 1 else ""
        raise Refused("data_loss", sentences[0] + more)
