-- Read feeds.
--
-- args     arrays: tenant, name
-- answers  tenant and name of each that is there, feed_id, configuration, birth, counters
SELECT
  feed.tenant, feed.name, feed_id, config, birth, created_at_ms, epoch, seq, seq_epoch, at_ms, first_seq, oldest_at_ms,
  changes_bytes, items, total, number
FROM unnest(%s::text[], %s::text[]) AS wanted (tenant, name)
JOIN feed ON feed.tenant = wanted.tenant AND feed.name = wanted.name;
