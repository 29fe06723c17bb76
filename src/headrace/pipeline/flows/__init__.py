"""Flows of jobs through Spark: into queues, through workers and back, and once more from the past."""
