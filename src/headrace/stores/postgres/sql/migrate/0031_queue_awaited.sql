-- Until when somebody waits for the end of a job of the queue: whoever ends one reads it and tells them only then.
ALTER TABLE queue ADD COLUMN awaited_until_ms bigint NOT NULL DEFAULT 0;
