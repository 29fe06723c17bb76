"""`headrace feeds publish`: publishes an item, or the items of a file."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

import msgspec
import typer
from msgspec import UNSET, Struct, UnsetType

from headrace.cli import jsonl
from headrace.cli.exit_codes import NO, OK
from headrace.cli.feeds.options import (
    After,
    Before,
    First,
    Name,
    choose_position,
    instance,
    item_refusal,
    position_text,
    writable_feed,
)
from headrace.cli.options import TENANT, Json, Tenant, Url
from headrace.cli.output import Output, one_line
from headrace.cli.parse import typed_payload, value_of
from headrace.cli.store_access import with_store
from headrace.client.codec import JSON
from headrace.inspect.feeds import feed_of
from headrace.model.clock import SystemClock
from headrace.model.errors import BadConfig, Refused
from headrace.model.feed import LAST, FeedName, Publication
from headrace.model.limits import BATCH_MAX, CHANGES_PAGE_BYTES
from headrace.model.names import uuid7
from headrace.model.results import Published
from headrace.model.validate import bounded_repr, nearest
from headrace.stores.contract.store import Store

Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ITEM]",
        help="JSON ('{\"user_id\": 42}'), pairs (user_id=42 name=Ada), or - to read stdin.",
        show_default=False,
    ),
]
Id = Annotated[str | None, typer.Option("--id", help="Id of the item; an existing item is edited.")]
Edit = Annotated[bool, typer.Option("--edit", help="Only edit the item of this --id, in its position.")]
Source = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="FILE",
        help='Publish many: one JSON object a line, {"item": …} with id, before, after, first or edit; - reads stdin.',
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

    An item without an id gets one. Positions are for sorted feeds, --first for item queues as well. A wrong line of a
    file ends the command, and the error names the last published line. Exits with 1 if the feed refused some items.

    Example: headrace feeds publish news title=Launch --id launch
    """
    output, feed = Output(json=json), writable_feed(name, tenant)
    position = choose_position(before, after, first)
    if source is not None:
        single = {"an item": words, "--id": id, "a position": position, "--edit": edit}
        for option in (option for option, value in single.items() if value):
            raise BadConfig(f"{option} applies to one item, and --from publishes many; put it into the lines")
        return _publish_file(output, feed, source, url)
    if not words:
        raise BadConfig(f"the item is missing; give it as in: headrace feeds publish {name} user_id=42")
    item = JSON.encode(value_of(typed_payload(words, None, "item"), what="item"))
    publication = Publication(item, id, position or LAST, edit)
    answer = with_store(url, lambda store: _publish(store, feed, publication))
    output.document({"feed": name, "tenant": tenant, "id": answer.id, "status": answer.status})
    where = "" if position is None else f", {position_text(position)}"
    output.say(f"item {one_line(answer.id or '')} was {answer.status} in {name!r}{where}")
    return OK


async def _publish(store: Store, feed: FeedName, publication: Publication) -> Published:
    type = (await feed_of(store, feed.tenant, feed.name)).config.type
    [answer] = await store.items.publish(feed, [_with_id(publication, type)], instance=instance())
    if not answer.ok:
        raise item_refusal(feed, answer.status, publication.id, publication.position)
    return answer


def _with_id(publication: Publication, type: str) -> Publication:
    """The publication with an id; a sorted feed assigns its own."""
    if publication.id is not None or type == "sorted":
        return publication
    return Publication(publication.item, uuid7(SystemClock().now_ms(), os.urandom(10)), publication.position)


def _publish_file(output: Output, feed: FeedName, source: str, url: str | None) -> int:
    report = jsonl.LineReport()
    with ExitStack() as stack:
        file = jsonl.open_lines(stack, source, "items")
        advance = stack.enter_context(output.progress("publishing"))

        async def use(store: Store) -> None:
            type = (await feed_of(store, feed.tenant, feed.name)).config.type

            async def submit(publications: Sequence[Publication]) -> list[jsonl.LineAnswer]:
                identified = [_with_id(each, type) for each in publications]
                answers = await store.items.publish(feed, identified, instance=instance())
                return [_line_answer(feed, *each) for each in zip(publications, answers, strict=True)]

            look = f"headrace feeds items {feed.name}"
            sender = jsonl.LineSender(publication_of, submit, "published", look, _calls)
            await jsonl.send(file, sender, report, advance)

        with_store(url, use)
    output.document(
        {
            "feed": feed.name,
            "tenant": feed.tenant,
            "published": report.sent - report.refusals,
            "statuses": report.statuses,
            "refused": report.refused,
        }
    )
    output.say(f"{report.sent:,} items: {report}" if report.sent else f"{source} holds no item")
    for each in report.refused:
        output.say(f"line {each.line:,}: {each.error}")
    if report.refusals > len(report.refused):
        output.say(f"and {report.refusals - len(report.refused):,} more refused items")
    return NO if report.refusals else OK


def _line_answer(feed: FeedName, publication: Publication, answer: Published) -> jsonl.LineAnswer:
    if answer.ok:
        return jsonl.LineAnswer(answer.id, answer.status)
    refusal = item_refusal(feed, answer.status, publication.id, publication.position)
    return jsonl.LineAnswer(answer.id, answer.status, is_refused=True, error=str(refusal))


def _calls(part: Sequence[jsonl.Line[Publication]]) -> Iterator[list[jsonl.Line[Publication]]]:
    """The items in calls bounded by number and bytes."""
    call: list[jsonl.Line[Publication]] = []
    size = 0
    for line in part:
        if call and (len(call) == BATCH_MAX or size + len(line.item.item) > CHANGES_PAGE_BYTES):
            yield call
            call, size = [], 0
        call.append(line)
        size += len(line.item.item)
    yield call


class FeedLine(Struct, frozen=True, forbid_unknown_fields=True):
    """An item in a file."""

    item: Any | UnsetType = UNSET
    id: str | None = None
    before: str | None = None
    after: str | None = None
    first: bool = False
    edit: bool = False


def publication_of(line: bytes) -> Publication:
    """The item of a line; raises `Refused` for a line without a valid item."""
    try:
        names = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        for name in names:
            if name not in FeedLine.__struct_fields__:
                near = nearest(name, FeedLine.__struct_fields__)
                hint = f"did you mean {near!r}?" if near else f"known fields: {', '.join(FeedLine.__struct_fields__)}"
                raise Refused("bad_line", f'a line has no {bounded_repr(name)}; {hint}; the item itself is "item"')
        found = msgspec.json.decode(line, type=FeedLine)
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise Refused(
            "bad_line", f'not a valid JSON object; write {{"item": {{"user_id": 42}}, "id": "a"}} ({error})'
        ) from error
    if found.item is UNSET:
        raise Refused("bad_item", 'the line has no item; add one ("item": {"user_id": 42})')
    position = choose_position(found.before, found.after, found.first)
    return Publication(JSON.encode(found.item), found.id, position or LAST, found.edit)
