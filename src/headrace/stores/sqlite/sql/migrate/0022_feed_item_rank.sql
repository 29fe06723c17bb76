-- The order of a feed. Two items never keep the same rank, but may have it for a moment while ranks are drawn anew.
CREATE INDEX feed_item_rank ON feed_item (feed_id, rank);
