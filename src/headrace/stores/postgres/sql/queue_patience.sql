-- Wait for a lock of this transaction no longer than a second: whoever asks for a queue meanwhile waits behind it.
SELECT set_config('lock_timeout', '1000', true);
