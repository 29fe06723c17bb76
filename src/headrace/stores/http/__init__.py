"""The HTTP service as a store."""
