"""Pools of threads and processes for handlers that must not run on the worker's event loop."""
