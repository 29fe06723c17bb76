"""Connections to Redis: one, those of one server, those of a cluster or behind Sentinel, and pub/sub."""
