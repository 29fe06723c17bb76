-- name: store_read
-- The boot and profile under which the file was last opened.
SELECT boot_id, profile FROM store WHERE one = 1;

-- name: store_write
-- Write the boot and profile under which the file is open.
--
-- args     boot_id, profile
INSERT INTO store (one, boot_id, profile) VALUES (1, ?, ?)
ON CONFLICT (one) DO UPDATE SET boot_id = excluded.boot_id, profile = excluded.profile;

-- name: store_highest_epoch
-- The highest epoch of any shard or feed.
SELECT max(coalesce((SELECT max(epoch) FROM shard), 1), coalesce((SELECT max(epoch) FROM feed), 1));
