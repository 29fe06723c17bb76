-- The order of a feed. Not unique: ranks that are drawn anew may trade positions within a statement.
CREATE INDEX feed_item_rank ON feed_item (feed_id, rank);
