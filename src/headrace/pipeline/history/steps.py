"""The steps of a batch by name: where a test may stop or kill the process. Nothing else happens here."""


def reached(step: str, batch: int) -> None:
    """Called as each step is over: begun, staged, checked, placing (before each file), placed, committed (Delta
    only), noted, advanced; of a compaction: merged, linked, exchanged."""
