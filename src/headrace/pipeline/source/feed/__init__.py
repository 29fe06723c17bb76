"""Feeds in Spark: items as a batch, changes as a stream."""
