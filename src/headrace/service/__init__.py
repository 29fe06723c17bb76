"""The HTTP service: operations on jobs, queues and feeds for callers with a token."""
