"""The embedded store: one SQLite file, shared by threads and processes of one machine."""
