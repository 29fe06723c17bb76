"""The store in memory: the reference that every other store is compared with."""
