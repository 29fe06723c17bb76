-- Drop the pieces whose changes all have numbers up to this one.
--
-- args     feed_id, seq
DELETE FROM feed_change WHERE feed_id = ? AND seq <= ?;
