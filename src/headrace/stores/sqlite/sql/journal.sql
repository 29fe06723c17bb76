-- name: journal_read
-- Entries from a key on, oldest first.
--
-- args     lowest key, highest key, limit
SELECT entry_id, count, epoch, at_ms, worker, lines FROM journal WHERE entry_id BETWEEN ? AND ? ORDER BY entry_id LIMIT ?;

-- name: journal_write
-- Append an entry to the journal.
--
-- args     entry_id, count, epoch, at_ms, worker, lines
INSERT INTO journal (entry_id, count, epoch, at_ms, worker, lines) VALUES (?, ?, ?, ?, ?, ?);

-- name: journal_oldest
-- The oldest entry of a shard, without its lines.
--
-- args     lowest key, highest key
SELECT entry_id, at_ms, length(lines)
FROM journal WHERE entry_id BETWEEN ? AND ? ORDER BY entry_id LIMIT 1;

-- name: journal_at
-- The first entry from a key on, without its lines: a search by time reads a few entries of a whole journal.
--
-- args     lowest key, highest key
SELECT entry_id, count, at_ms FROM journal WHERE entry_id BETWEEN ? AND ? ORDER BY entry_id LIMIT 1;

-- name: journal_drop
-- Drop an entry.
--
-- args     entry_id
DELETE FROM journal WHERE entry_id = ?;
