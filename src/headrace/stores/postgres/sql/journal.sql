-- Statements on the journal: one entry per call and shard, under the number of its last event.

-- name: journal_read
-- Entries after a seq, oldest first, until they reach a number of bytes.
--
-- args     shard_id, after seq, limit, bytes, up to seq
SELECT last_seq, epoch, at_ms, count, worker, lines FROM (
  SELECT
    last_seq, epoch, at_ms, count, worker, lines,
    sum(octet_length(lines)) OVER (ORDER BY last_seq ROWS UNBOUNDED PRECEDING) - octet_length(lines) AS bytes_before
  FROM (
    SELECT last_seq, epoch, at_ms, count, worker, lines
    FROM journal WHERE shard_id = %s AND last_seq > %s ORDER BY last_seq LIMIT %s) AS page) AS measured
WHERE bytes_before < %s AND last_seq - count < %s ORDER BY last_seq;

-- name: journal_oldest
-- The oldest entries of a shard, without their lines.
--
-- args     shard_id, first seq, limit
SELECT last_seq, at_ms, octet_length(lines)
FROM journal WHERE shard_id = %s AND last_seq >= %s ORDER BY last_seq LIMIT %s;

-- name: journal_reached
-- The last seq of journals at an instant, by bisection: each round reads the entry in the middle of a range and halves
-- the range. A round reads the index and one row, however many partitions there are.
--
-- args     the instant; arrays: shard_id, the seq below the range, its last seq
-- answers  per range, in any order: its position in the arrays from 1, the last seq at or before the instant
WITH RECURSIVE halved (position, shard_id, low, high, instant) AS (
  SELECT position, shard_id, low, high, %s::bigint
  FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) WITH ORDINALITY AS wanted (shard_id, low, high, position)
  UNION ALL
  SELECT
    position, shard_id, CASE WHEN at_ms <= instant THEN last_seq ELSE low END,
    CASE WHEN at_ms <= instant THEN high ELSE least(last_seq - count, (low + high - 1) / 2) END, instant
  FROM halved LEFT JOIN LATERAL (
    SELECT last_seq, count, at_ms FROM journal
    WHERE journal.shard_id = halved.shard_id AND last_seq > (halved.low + halved.high - 1) / 2
    ORDER BY last_seq LIMIT 1) AS entry ON true
  WHERE low < high)
SELECT position, low FROM halved WHERE low >= high;

-- name: journal_drop
-- Drop the entries of a shard up to a seq.
--
-- args     shard_id, last_seq
DELETE FROM journal WHERE shard_id = %s AND last_seq <= %s;

-- name: journal_add_partition
-- Add the partition of the journal that holds a seq.
--
-- args     seq
SELECT journal_add_partition(%s);

-- name: journal_drop_partitions
-- Drop the partitions of the journal that are empty and no longer written.
SELECT journal_drop_partitions();
