"""Writing from Spark: jobs, replays of dead letters, items of feeds."""
