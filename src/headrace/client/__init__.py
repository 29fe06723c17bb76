"""Sends jobs and waits for what became of them: for programs with an event loop, and for those without."""
