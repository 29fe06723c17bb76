-- name: feed_change_read
-- Pieces with a change behind a seq, oldest first.
--
-- args     feed_id, seq, limit
SELECT seq, at_ms, epoch, instance, lines FROM feed_change WHERE feed_id = ? AND seq > ? ORDER BY seq LIMIT ?;

-- name: feed_change_write
-- Append a piece to the log of a feed.
--
-- args     feed_id, seq of its last change, at_ms, epoch, instance, lines
INSERT INTO feed_change (feed_id, seq, at_ms, epoch, instance, lines) VALUES (?, ?, ?, ?, ?, ?);

-- name: feed_change_drop
-- Drop the pieces whose last change has at most this seq.
--
-- args     feed_id, seq
DELETE FROM feed_change WHERE feed_id = ? AND seq <= ?;

-- name: feed_change_erase
-- Erase the log of a dropped feed, up to a limit.
--
-- args     feed_id, limit
DELETE FROM feed_change WHERE change_id IN (SELECT change_id FROM feed_change WHERE feed_id = ? LIMIT ?);
