-- Append a piece to the log of a feed.
--
-- args     feed_id, seq of its last change, at_ms, epoch, instance, lines
INSERT INTO feed_change (feed_id, seq, at_ms, epoch, instance, lines) VALUES (?, ?, ?, ?, ?, ?);
