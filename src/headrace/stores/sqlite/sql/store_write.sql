-- Remember the boot and profile.
--
-- args     boot_id, profile
INSERT INTO store (one, boot_id, profile) VALUES (1, ?, ?)
ON CONFLICT (one) DO UPDATE SET boot_id = excluded.boot_id, profile = excluded.profile;
