-- The order of a feed. Not unique: ranks that are drawn anew may change places within a statement.
CREATE INDEX feed_item_rank ON feed_item (feed_id, rank);
