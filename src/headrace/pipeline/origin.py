"""Where the events of tables come from; known without Spark, so that nobody waits for it to hear that there is none."""

from typing import Literal

from headrace.pipeline.data_dir import DataDir
from headrace.pipeline.history.state import read_state

Origin = Literal["history", "journal"]


def default_origin(data_dir: DataDir) -> Origin:
    """The history once anything is in it, else the store's journal."""
    state = read_state(data_dir.history)
    return "history" if state is not None and state.events else "journal"
