-- The order in which endings are swept.
CREATE INDEX ending_unpinned ON ending (shard_id, ending_id) WHERE NOT pinned;
