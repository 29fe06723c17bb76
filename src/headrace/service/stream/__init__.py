"""Server-sent events of feeds, queues and jobs."""
