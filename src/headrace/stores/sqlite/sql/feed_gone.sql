-- name: feed_gone_add
-- Remember that the items and changes of a dropped feed are to be erased.
--
-- args     feed_id
INSERT INTO feed_gone (feed_id) VALUES (?);

-- name: feed_gone_next
-- The next dropped feed whose items and changes may not be erased yet.
--
-- args     after feed_id
SELECT feed_id FROM feed_gone WHERE feed_id > ? ORDER BY feed_id LIMIT 1;

-- name: feed_gone_drop
-- Forget a dropped feed whose items and changes are erased.
--
-- args     feed_id
DELETE FROM feed_gone WHERE feed_id = ?;
