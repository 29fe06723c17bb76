-- Let nobody find a feed any more, and remember that what it held is to be erased.
--
-- args     feed_id
WITH gone AS (DELETE FROM feed WHERE feed_id = %s RETURNING feed_id)
INSERT INTO feed_gone (feed_id) SELECT feed_id FROM gone;
