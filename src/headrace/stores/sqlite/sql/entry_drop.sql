-- args     entry_id
DELETE FROM entry WHERE entry_id = ?;
