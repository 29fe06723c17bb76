-- A queue and the one that is its fail queue or whose fail queue it is, some shards of the queue, and the clock. Counts
-- are those that were folded into the shard's row plus those that wait in its inbox.
--
-- args     name, indexes of shards, tenant, both names
-- answers  the clock, then per queue and shard: name, queue_id, shards, config, whether somebody waits for the end of a
--          job, index, shard_id, calls in the inbox, the journal's counters, the counts
SELECT
  floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, q.name, q.queue_id, q.shards, q.config,
  q.awaited_until_ms > floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, s.index, s.shard_id, i.calls, s.epoch, s.seq, s.at_ms, s.first_seq, s.journal_bytes, s.oldest_at_ms, s.ready + i.ready, s.later + i.later,
  s.blocked + i.blocked, s.active + i.active, s.done + i.done, s.cancelled + i.cancelled, s.dead + i.dead,
  s.unpinned + i.unpinned
FROM (SELECT %s::text AS name, %s::integer[] AS indexes) AS wanted
LEFT JOIN queue AS q ON q.tenant = %s AND q.name = ANY (%s::text[])
LEFT JOIN shard AS s ON s.queue_id = q.queue_id AND q.name = wanted.name AND s.index = ANY (wanted.indexes)
LEFT JOIN LATERAL (
  SELECT
    count(*) AS calls, coalesce(sum(ready), 0)::bigint AS ready, coalesce(sum(later), 0)::bigint AS later,
    coalesce(sum(blocked), 0)::bigint AS blocked, coalesce(sum(active), 0)::bigint AS active,
    coalesce(sum(done), 0)::bigint AS done, coalesce(sum(cancelled), 0)::bigint AS cancelled,
    coalesce(sum(dead), 0)::bigint AS dead, coalesce(sum(unpinned), 0)::bigint AS unpinned
  FROM inbox WHERE inbox.shard_id = s.shard_id) AS i ON true;
