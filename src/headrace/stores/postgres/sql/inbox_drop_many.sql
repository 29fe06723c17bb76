-- Take calls out of the inboxes of some shards: they are numbered.
--
-- args     arrays: shard_id, ticket
DELETE FROM inbox USING unnest(%s::bigint[], %s::bigint[]) AS gone (shard_id, ticket)
WHERE inbox.shard_id = gone.shard_id AND inbox.ticket = gone.ticket;
