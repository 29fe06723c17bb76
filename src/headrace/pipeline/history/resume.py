"""Where a run of the history begins: behind the last event of each journal, if that is still the one that was read."""

from headrace.model.clock import monotonic_ms
from headrace.pipeline.source.journal.offset import Loss, Mark, Offset
from headrace.pipeline.source.journal.shards import FollowedShards, JournalIdentity
from headrace.pipeline.source.offsets import raise_data_loss
from headrace.pipeline.source.options import ALL, SourceOptions
from headrace.stores.contract.store import Store


def is_named(name: str, options: SourceOptions) -> bool:
    """Whether the options mean the journal `tenant/queue/shard`."""
    tenant, queue, _ = name.split("/")
    return options.tenant in (ALL, tenant) and (not options.names or queue in options.names)


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
