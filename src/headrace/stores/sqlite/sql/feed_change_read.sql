-- Pieces that hold a change behind a number, oldest first.
--
-- args     feed_id, seq, limit
SELECT seq, at_ms, epoch, instance, lines FROM feed_change WHERE feed_id = ? AND seq > ? ORDER BY seq LIMIT ?;
