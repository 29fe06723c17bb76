"""The store on a PostgreSQL server, with enqueues inside a caller's own transaction."""
