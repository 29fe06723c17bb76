"""The worker: claims jobs, runs their handlers and settles them."""
