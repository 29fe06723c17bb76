-- Append an entry to the journal.
--
-- args     entry_id, count, epoch, at_ms, worker, lines
INSERT INTO entry (entry_id, count, epoch, at_ms, worker, lines) VALUES (?, ?, ?, ?, ?, ?);
