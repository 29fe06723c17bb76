"""`headrace feeds publish`: puts an item into a feed, or the many items of a file."""

import os
from typing import Annotated

import typer

from headrace.cli.exit_codes import NO, OK
from headrace.cli.feeds.options import Name, Tenant, feed_of, instance, writable
from headrace.cli.feeds.position import After, Before, First, chosen_place, place_text, refusal
from headrace.cli.options import TENANT, Json, Url
from headrace.cli.output import Output, one_line
from headrace.cli.parse import typed_payload, value_of
from headrace.cli.store_access import with_store
from headrace.client.codec import JSON
from headrace.model.clock import SystemClock
from headrace.model.errors import BadConfig
from headrace.model.feed import LAST, FeedName, Publication
from headrace.model.ids import uuid7
from headrace.model.results import Published
from headrace.stores.contract.store import Store

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ITEM]",
        help="JSON ('{\"user_id\": 42}'), or pairs (user_id=42 name=Ada), or - for what is piped in.",
        show_default=False,
    ),
]
Id = Annotated[str | None, typer.Option("--id", help="Names the item; one that is there is edited.")]
Edit = Annotated[bool, typer.Option("--edit", help="Only edit the item of this --id, where it stands.")]
Source = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help='Publish many: one JSON object a line, {"item": …} with id, before, after, first or edit; - is what is'
        " piped in.",
    ),
]


def publish(
    name: Name,
    words: Words = None,
    id: Id = None,
    before: Before = None,
    after: After = None,
    first: First = False,
    edit: Edit = False,
    source: Source = None,
    url: Url = None,
    tenant: Tenant = TENANT,
    json: Json = False,
) -> int:
    """Publish an item, or many from a file.

    Without an id one is made. Places are for sorted feeds, --first for plain queues as well. A line of a file that is
    wrong ends it, and says what was published before; exits with 1 when the feed would not have some items.
    """
    output, feed = Output(json=json), writable(name, tenant)
    place = chosen_place(before, after, first)
    if source is not None:
        given = {"an item": words, "--id": id, "a place": place, "--edit": edit}
        for wrong in (each for each, found in given.items() if found):
            raise BadConfig(f"{wrong} is for one item, and --from publishes many; write it into the lines")
        return _many(output, feed, source, url)
    if not words:
        raise BadConfig(f"an item is needed, as in: headrace feeds publish {name} user_id=42")
    item = JSON.encode(value_of(typed_payload(words, None, "item"), what="item"))
    publication = Publication(item, id, place or LAST, edit)
    answer = with_store(url, lambda store: _one(store, feed, publication))
    output.document({"feed": name, "tenant": tenant, "id": answer.id, "status": answer.status})
    where = "" if place is None else f", {place_text(place)}"
    output.say(f"item {one_line(answer.id or '')} was {answer.status} in {name!r}{where}")
    return OK


async def _one(store: Store, feed: FeedName, publication: Publication) -> Published:
    type = (await feed_of(store, feed.tenant, feed.name)).config.type
    [answer] = await store.items.publish(feed, [identified(publication, type)], instance=instance())
    if not answer.ok:
        raise refusal(feed, answer.status, publication.id, publication.position)
    return answer


def identified(publication: Publication, type: str) -> Publication:
    """The publication with an id; a sorted feed draws its own."""
    if publication.id is not None or type == "sorted":
        return publication
    return Publication(publication.item, uuid7(SystemClock().now_ms(), os.urandom(10)), publication.position)


def _many(output: Output, feed: FeedName, source: str, url: str | None) -> int:
    from contextlib import ExitStack

    from headrace.cli.feeds.lines import FeedLineTally, publish_lines
    from headrace.cli.jsonl import opened

    tally = FeedLineTally()
    with ExitStack() as stack:
        file = opened(stack, source, "items")
        advance = stack.enter_context(output.progress("publishing"))

        async def send(store: Store) -> None:
            type = (await feed_of(store, feed.tenant, feed.name)).config.type
            await publish_lines(store, feed, type, file, tally, advance)

        with_store(url, send)
    output.document(
        {
            "feed": feed.name,
            "tenant": feed.tenant,
            "published": tally.sent - tally.refusals,
            "statuses": tally.statuses,
            "refused": tally.refused,
        }
    )
    output.say(f"{tally.sent:,} items: {tally}" if tally.sent else f"{source} holds no item")
    for each in tally.refused:
        output.say(f"line {each.line:,}: {each.error}")
    if tally.refusals > len(tally.refused):
        output.say(f"and {tally.refusals - len(tally.refused):,} more that were refused")
    return NO if tally.refusals else OK
