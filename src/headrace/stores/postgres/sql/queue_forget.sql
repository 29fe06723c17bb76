-- Forget a queue.
--
-- args     queue_id
DELETE FROM queue WHERE queue_id = %s;
