"""Map: turns rows into jobs, and their results into a frame."""
