"""The store in Redis or Valkey: one server, Sentinel or Cluster; every step is a function that the server runs."""
