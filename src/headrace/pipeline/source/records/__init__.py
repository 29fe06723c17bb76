"""Records in Spark: jobs, finished jobs and dead letters as a store holds them now."""
