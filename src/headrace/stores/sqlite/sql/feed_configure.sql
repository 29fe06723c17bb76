-- Store the configuration of a feed.
--
-- args     config, feed_id
UPDATE feed SET config = ? WHERE feed_id = ?;
