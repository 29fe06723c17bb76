-- Drop a feed by its number: nobody finds it any more.
--
-- args     feed_id
DELETE FROM feed WHERE feed_id = ?;
