"""The demo: jobs of several kinds and tenants run through SQLite, then Spark tells from the journal what happened."""
