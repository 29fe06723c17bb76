"""Turns functions into jobs, and connects clients and workers to one store."""
