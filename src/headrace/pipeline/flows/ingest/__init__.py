"""Rows of any table, file or stream that Spark reads, as jobs: each row once."""
