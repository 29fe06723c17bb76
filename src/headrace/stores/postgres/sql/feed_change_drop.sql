-- Drop changes from the front of the log. From the first that is kept on: what was dropped before may not have been
-- vacuumed yet, and is not to be passed again.
--
-- args     feed_id, first seq, last seq
DELETE FROM feed_change WHERE feed_id = %s AND seq BETWEEN %s AND %s;
