-- How far journals had got at an instant: every round looks at the entry in the middle of what is left of each range, and
-- halves it. Only the index and one row a round are read, whatever partitions there are.
--
-- args     the instant; arrays: shard_id, the seq below the range, its last seq
-- answers  per range, in any order: its place among the given ones from 1, the last seq at or before the instant
WITH RECURSIVE halved (place, shard_id, low, high, instant) AS (
  SELECT place, shard_id, low, high, %s::bigint
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) WITH ORDINALITY AS given (shard_id, low, high, place)
  UNION ALL
  SELECT
    place, shard_id, CASE WHEN at_ms <= instant THEN last_seq ELSE low END,
    CASE WHEN at_ms <= instant THEN high ELSE least(last_seq - count, (low + high - 1) / 2) END, instant
  FROM halved LEFT JOIN LATERAL (
    SELECT last_seq, count, at_ms FROM journal
    WHERE journal.shard_id = halved.shard_id AND last_seq > (halved.low + halved.high - 1) / 2
    ORDER BY last_seq LIMIT 1) AS entry ON true
  WHERE low < high)
SELECT place, low FROM halved WHERE low >= high;
