"""What we said inside an error of Spark, which wraps it into a page of its own."""

import re

from headrace.model.errors import BadConfig, HeadraceError, OutcomeUnknown, Refused, StoreUnavailable

_SAID = re.compile(r"^headrace\.model\.errors\.(\w+): (.+)$", re.MULTILINE)
_KINDS: dict[str, type[HeadraceError]] = {kind.__name__: kind for kind in (BadConfig, OutcomeUnknown, StoreUnavailable)}


def said_by_us(error: Exception) -> HeadraceError | None:
    """The error of ours that an error of Spark tells of; None when it tells of none."""
    found = _SAID.search(str(error))
    if found is None:
        return None
    name, sentence = found.groups()
    if name == Refused.__name__:
        return Refused("refused", sentence)
    return _KINDS.get(name, HeadraceError)(sentence)
