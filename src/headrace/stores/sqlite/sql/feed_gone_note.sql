-- Note that what a dropped feed held is to be erased.
--
-- args     feed_id
INSERT INTO feed_gone (feed_id) VALUES (?);
