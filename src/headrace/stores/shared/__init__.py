"""Helpers of all drivers: cursors, sharding, validation, lookups by id, waiters."""
