"""A fleet: workers on Spark's executors, with the same leases, heartbeats and settlements as elsewhere."""
