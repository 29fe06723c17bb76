-- A dropped feed that nobody else is erasing.
--
-- answers  feed_id
SELECT feed_id FROM feed_gone ORDER BY feed_id LIMIT 1 FOR UPDATE SKIP LOCKED;
