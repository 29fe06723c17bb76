"""The store on a PostgreSQL server: for those who have one already, with enqueues inside their own transactions."""
