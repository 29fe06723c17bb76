-- args     config, queue_id
UPDATE queue SET config = ? WHERE queue_id = ?;
