-- Change a queue's configuration.
--
-- args     config, queue_id
UPDATE queue SET config = ? WHERE queue_id = ?;
