-- The boot and profile under which the file was last opened.
SELECT boot_id, profile FROM store WHERE one = 1;
