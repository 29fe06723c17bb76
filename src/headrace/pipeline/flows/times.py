"""The instant up to which the past is looked at: what happens later was not counted, and is left alone."""

from headrace.pipeline.source.store_access import connect


def now_ms(url: str) -> int:
    """The clock of the store at `url`."""
    with connect(url) as (runner, store):
        return runner.run(store.now_ms())
