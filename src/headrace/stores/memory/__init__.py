"""The store in memory: the reference for the behaviour of every other store."""
