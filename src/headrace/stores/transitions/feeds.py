"""How feeds come and go, and what is swept: each step also writes to the log of the tenant's directory."""

from collections.abc import Mapping

import msgspec

from headrace.model.errors import Refused
from headrace.model.feed import DIRECTORY_CONFIG, FeedConfig, FeedName
from headrace.stores.transitions.changes import Log, trim
from headrace.stores.transitions.feed_rows import FeedHead, FeedRows, ItemRow
from headrace.stores.transitions.items import evict
from headrace.stores.transitions.rows import Tx

encode_config = msgspec.json.Encoder().encode


def create(tx: Tx, feed: FeedName, config: FeedConfig, instance: str, now_ms: int) -> None:
    """Make a feed, and its tenant's directory if this is the first."""
    directory = tx.feed(feed.directory)
    if directory is None:
        directory = tx.make_feed(feed.directory, DIRECTORY_CONFIG, FeedHead(f"{now_ms}.0", now_ms))
    if directory.row(feed.name) is not None:
        raise feed_exists(feed)
    text = encode_config(config)
    listing = Log(directory, instance, now_ms)
    directory.put(ItemRow(feed.name, text, feed.name, listing.at_ms))
    directory.head.items += 1
    directory.head.total += 1
    seq = listing.note("created", feed.name, text)
    listing.close()
    rows = tx.make_feed(feed, config, FeedHead(f"{listing.at_ms}.{seq}", listing.at_ms))
    log = Log(rows, instance, listing.at_ms)
    log.note("created", item=text)
    log.close()


def configure(
    tx: Tx, feed: FeedName, changes: Mapping[str, object], version: int | None, instance: str, now_ms: int
) -> FeedConfig:
    """Change settings of a feed."""
    directory = tx.feed(feed.directory)  # locked first by everybody who needs both
    rows = known_feed(tx, feed)
    assert directory is not None  # it holds the feed
    if version is not None and version != rows.config.version:
        raise feed_version_changed(feed, rows.config, version)
    rows.config = config = rows.config.changed(changes)
    text = encode_config(config)
    listing = Log(directory, instance, now_ms)
    directory.put(ItemRow(feed.name, text, feed.name, listing.at_ms))
    directory.head.total += 1
    listing.note("configured", feed.name, text)
    listing.close()
    log = Log(rows, instance, now_ms)
    log.note("configured", item=text)
    log.close()
    return config


def delete(tx: Tx, feed: FeedName, instance: str, now_ms: int) -> None:
    """Drop a feed; its directory remembers that it was there."""
    directory = tx.feed(feed.directory)
    rows = known_feed(tx, feed)
    assert directory is not None  # it holds the feed
    listed = directory.row(feed.name)
    assert listed is not None  # likewise
    listing = Log(directory, instance, now_ms)
    directory.drop(listed)
    directory.head.items -= 1
    listing.note("deleted", feed.name)
    listing.close()
    tx.forget_feed(rows)


def sweep(tx: Tx, feed: FeedName, instance: str, now_ms: int) -> int:
    """Evict items and drop changes beyond the bounds; says how many."""
    rows = tx.feed(feed)
    if rows is None:
        return 0
    log, head = Log(rows, instance, now_ms), rows.head
    first_seq = head.first_seq
    evicted = evict(log) if rows.config.type == "feed" and not feed.is_directory else 0
    log.close()
    trim(rows, log.at_ms)
    swept = evicted + head.first_seq - first_seq
    if feed.is_directory and not head.items and head.first_seq > head.seq:
        tx.forget_feed(rows)
    return swept


def known_feed(tx: Tx, feed: FeedName) -> FeedRows:
    """The rows of a feed; refuses an unknown one."""
    rows = tx.feed(feed)
    if rows is None:
        raise unknown_feed(feed)
    return rows


def unknown_feed(feed: FeedName) -> Refused:
    """The refusal of a feed that is not there."""
    return Refused("unknown_feed", f"there is no feed {str(feed)!r}; create it first")


def feed_exists(feed: FeedName) -> Refused:
    """The refusal to make a feed that is there."""
    return Refused("feed_exists", f"there is a feed {str(feed)!r} already; configure it, or choose another name")


def feed_version_changed(feed: FeedName, config: FeedConfig, version: int) -> Refused:
    """The refusal of a change that was made looking at an older configuration."""
    return Refused(
        "version_changed",
        f"feed {str(feed)!r} was to be at version {version} and is at {config.version};"
        " read its configuration and decide again",
    )
