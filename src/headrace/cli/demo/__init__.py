"""The demo: runs jobs of several kinds and tenants on SQLite, then reports on them from the journal with Spark."""
