"""Requests and answers of the HTTP service, shared by the service and by the store that talks to it."""
