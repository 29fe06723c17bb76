-- Store a configuration in the place of the one that was read.
--
-- args     config, queue_id, config as it was read
UPDATE queue SET config = %s WHERE queue_id = %s AND config = %s;
