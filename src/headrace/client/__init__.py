"""Sends jobs and waits for their results, with or without an event loop."""
