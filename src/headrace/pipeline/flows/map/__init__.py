"""Rows through jobs: a frame becomes jobs, workers do them, and their results are a frame again."""
