"""Records in Spark: jobs, endings and dead letters as a store holds them now."""
