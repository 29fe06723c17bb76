"""Where a run of the history begins: checkpoint and state are compared, and a lost checkpoint is made anew."""

import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from headrace.model.clock import monotonic_ms
from headrace.model.errors import BadConfig
from headrace.pipeline.files import write_whole
from headrace.pipeline.history.delta import prepare_table
from headrace.pipeline.history.layout import CHECKPOINT, DELTA_LOG, STATE, WRITING
from headrace.pipeline.history.planned import last_number, read_end
from headrace.pipeline.history.state import Form, HistoryState, read_state, write_state
from headrace.pipeline.source.journal.offset import Loss, Mark, Offset
from headrace.pipeline.source.journal.shards import FollowedShards, JournalIdentity
from headrace.pipeline.source.offsets import raise_data_loss
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.stores.contract.store import Store

_ORIGIN = "_origin.json"


class Origin(Struct, frozen=True, kw_only=True):
    """What a checkpoint was made for; kept inside of it."""

    first_batch: int
    """The number in the history of the batch that Spark counts as 0."""
    tenant: str
    names: tuple[str, ...]


def check_folder(folder: Path, form: Form) -> HistoryState | None:
    """The state of the history in a folder, None of one that is new; refuses what is no history of this form, and
    changes nothing."""
    state = read_state(folder)
    if state is None:
        _check_empty(folder)
    elif state.form != form:
        raise BadConfig(
            f"the history in {folder} is kept as {state.form}, and {form} was asked for; use another folder"
        )
    return state


def begin(folder: Path, form: Form, *, payloads: bool) -> HistoryState:
    """The state of the history in a folder, which is made if it is new; refuses what is no history of this form."""
    state = check_folder(folder, form)
    if state is None:
        folder.mkdir(parents=True, exist_ok=True)
        state = HistoryState(form=form)
        # Before anything else: from now on this folder is a history.
        write_state(folder, state)
    if form == "delta":
        found = prepare_table(folder, state, payloads=payloads)
        if found != state:
            write_state(folder, found)
        state = found
    return state


def first_batch(folder: Path, state: HistoryState, options: SourceOptions) -> int | None:
    """The history's number of the batch that the checkpoint counts as 0; None when the checkpoint is of no use."""
    number = last_number(folder)
    origin = _read_origin(folder)
    if number is None or origin is None or (origin.tenant, origin.names) != (options.tenant, options.names):
        return None
    last = origin.first_batch + number
    if last > state.batch + 1:
        raise BadConfig(
            f"the checkpoint in {folder} is at batch {last:,} and {STATE} at {state.batch:,}: it was replaced by an"
            " older one; restore the whole folder, or use a new one"
        )
    try:
        end = read_end(folder, number)
    except BadConfig:
        return None
    if last == state.batch + 1 or (last == state.batch and is_reached(state, end)):
        return origin.first_batch
    return None


def is_reached(state: HistoryState, end: Offset) -> bool:
    """Whether the history ends where a batch does."""
    return all(state.shards.get(name) == mark for name, mark in end.shards.items())


def is_named(name: str, options: SourceOptions) -> bool:
    """Whether the options mean the journal `tenant/queue/shard`."""
    tenant, queue, _ = name.split("/")
    return options.tenant in (ALL, tenant) and (not options.names or queue in options.names)


def renew(folder: Path, state: HistoryState, options: SourceOptions) -> int:
    """Make room for a new checkpoint, and say which number its first batch has."""
    checkpoint = folder / CHECKPOINT
    # First, since a checkpoint without it counts as lost, also when we are stopped half-way.
    (checkpoint / _ORIGIN).unlink(missing_ok=True)
    shutil.rmtree(checkpoint, ignore_errors=True)
    checkpoint.mkdir()
    origin = Origin(first_batch=state.batch + 1, tenant=options.tenant, names=options.names)
    write_whole(checkpoint / _ORIGIN, msgspec.json.encode(origin))
    return origin.first_batch


async def find_begins(store: Store, options: SourceOptions, marks: dict[str, Mark]) -> dict[str, int]:
    """The seq that each journal goes on with behind its mark; refuses or goes on, as the options say, where a
    journal is no longer the one that was read."""
    watch = JournalIdentity(FollowedShards(store, options, monotonic_ms))
    bounds, losses = await watch.look(Offset(shards=marks), is_first=False)
    if options.fails_on_loss:
        raise_data_loss([_sentence(each) for each in losses], "shards")
    begins = {name: mark.seq + 1 for name, mark in marks.items() if name in bounds}
    for each in losses:
        if each.name in bounds:
            begins[each.name] = (await watch.resume(each)).after + 1
    return begins


def _sentence(loss: Loss) -> str:
    name, seq, bounds = loss.name, loss.mark.seq, loss.bounds
    found = {
        "trimmed": f"retention has dropped what follows up to {bounds.first_seq - 1:,}",
        "gone": "the store has no such queue",
        "shorter": f"the store's journal ends at seq {bounds.last_seq:,}: it has lost its tail, or is another one",
        "changed": "the store's journal holds another event there: it has lost its tail, or is another one",
    }[loss.kind]
    return (
        f"the history holds {name} up to seq {seq:,}, and {found}; use a new folder, or give fail_on_loss=False to go"
        " on with what is there"
    )


def _read_origin(folder: Path) -> Origin | None:
    try:
        return msgspec.json.decode((folder / CHECKPOINT / _ORIGIN).read_bytes(), type=Origin)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _check_empty(folder: Path) -> None:
    # The lock is taken before anything else is written.
    names = {each.name for each in folder.iterdir()} - {WRITING} if folder.exists() else set()
    if CHECKPOINT in names or DELTA_LOG in names or any(name.startswith("day=") for name in names):
        raise BadConfig(
            f"{folder} holds a history whose {STATE} is missing, without which nobody knows how far it is; restore that"
            " file, or use a new folder"
        )
    if names:
        raise BadConfig(f"{folder} holds something else ({min(names)!r}); name a folder that is new or empty")
