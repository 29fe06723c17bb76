"""Where the jobs of a fleet are: the store as executors reach it, and its queues as they are cut."""

from collections.abc import Mapping

from headrace.app.app import App
from headrace.app.decorators import WorkerFields
from headrace.app.discovery import url_of
from headrace.client.background import StorePortal
from headrace.model.names import Queue
from headrace.stores.catalog import all_queues
from headrace.stores.open import with_whole_path
from headrace.worker.config import QueueRef, QueueSelection


def store_url(url: str | None) -> str:
    """The URL that holds, of a file with its whole path: Spark's processes may run in another folder."""
    return with_whole_path(url_of(url))


def placed(config: WorkerFields, app: App, portal: StorePortal) -> QueueSelection | None:
    """The queues that are wished for, where only a name was given as the store has them: into how many shards a queue
    is cut that no handler calls its home, only the store knows."""
    wishes = config.get("queues")
    if wishes is None or isinstance(wishes, str):
        return wishes
    tenant = config.get("tenant") or app.maker.tenant
    homes = {(queue.name, queue.tenant) for queue in app.handlers.queues}
    known = {queue.full_name: queue for queue in portal.call(lambda store: all_queues(store, tenant))}

    def queue_of(wish: QueueRef) -> QueueRef:
        if isinstance(wish, Queue) or (wish, tenant) in homes:
            return wish
        return known.get(wish, wish)

    if isinstance(wishes, Mapping):
        return {queue_of(wish): share for wish, share in wishes.items()}
    return [queue_of(wish) for wish in wishes]
