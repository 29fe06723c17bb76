"""The journal in Spark: read as a batch or followed as a stream."""
