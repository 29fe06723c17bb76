"""Where handlers run that must not run on the worker's event loop: threads and processes."""
