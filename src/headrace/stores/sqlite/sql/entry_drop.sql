-- Drop an entry.
--
-- args     entry_id
DELETE FROM entry WHERE entry_id = ?;
