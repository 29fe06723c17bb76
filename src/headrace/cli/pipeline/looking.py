"""A look into the store before Spark is started: is it there, which queues are meant, how many events are there."""

from msgspec import Struct

from headrace.cli.opening import with_store
from headrace.cli.stepping import batches
from headrace.stores.contract.store import Store


class Backlog(Struct, frozen=True):
    """What there is to be read."""

    queues: int
    events: int


def look(url: str, tenant: str, queue: str) -> Backlog:
    """What the journals hold; refuses a store or a queue that is not there, which takes Spark seconds to find out."""

    async def looked(store: Store) -> Backlog:
        from headrace.pipeline.source.discovery import find_queues
        from headrace.pipeline.source.options import SourceOptions

        queues = await find_queues(store, SourceOptions.parse({"url": url, "tenant": tenant, "queue": queue}))
        events = 0
        for some in batches([shard for each in queues for shard in each.all_shards()]):
            events += sum(each.last_seq - each.first_seq + 1 for each in await store.journal.all_bounds(some))
        return Backlog(len(queues), events)

    return with_store(url, looked)


def reach(url: str, *, new: bool) -> None:
    """Refuse a store that cannot be reached; `new` lets one be made that is not there."""

    async def reached(store: Store) -> None:
        await store.health()

    with_store(url, reached, new=new)
