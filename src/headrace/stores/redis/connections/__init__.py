"""Connections to Redis: single connections, servers, the topology of Sentinel and Cluster, and pub/sub."""
