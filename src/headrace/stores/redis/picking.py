"""The first ids of a state in a shard by code point, found without an index.

Redis orders no hash by its fields, and an index by id would cost each job some hundred bytes for the sake of people who
page through a list. So a page scans the shard's ids in chunks, outside any atomic step, and keeps the smallest ones
behind the cursor. The server works on no chunk for longer than on a claim, sends only ids that may be on the page, and
this process holds one page. What it costs: a page looks at every id of the state, so a list of a million jobs takes a
thousand calls a page.

It is exact for what stays: a scan shows everything that is there from its beginning to its end, bodies stay in one hash
while their job waits or runs, and a page that is full ends with the largest id that it holds.
"""

from headrace.model.job import State
from headrace.model.limits import SCAN_PER_CALL_MAX
from headrace.model.names import Shard
from headrace.stores.redis.asking import ask
from headrace.stores.redis.link import Link


async def smallest_ids(link: Link, shard: Shard, state: State, after: str, limit: int) -> list[str]:
    """The ids of a state with `id > after`, by code point, at most `limit`."""
    behind = after.encode()
    found: list[bytes] = []
    cursor = b"0"
    while True:
        below = found[-1] if len(found) == limit else b""
        given = [state.value, cursor, SCAN_PER_CALL_MAX, behind, below]
        [answer] = await ask(link, "list", [shard], given, reads=True)
        if answer is None:
            return []
        cursor, ids = answer
        # UTF-8 orders like code points; a scan may show an id twice.
        found = sorted({*found, *ids})[:limit]
        if cursor == b"0":
            return [id.decode() for id in found]
