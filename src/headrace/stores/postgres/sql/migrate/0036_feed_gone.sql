-- Feeds that were dropped and whose items and changes are still to be erased.
CREATE TABLE feed_gone (feed_id bigint PRIMARY KEY);
