"""Ingest: enqueues each row of a table, files or a stream once."""
