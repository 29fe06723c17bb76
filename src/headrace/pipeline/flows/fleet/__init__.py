"""A fleet: Spark's executors as workers, under the same leases, hearts and settlements as workers everywhere."""
