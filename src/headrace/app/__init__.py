"""The app: makes jobs of functions, and wires clients and workers to one store."""
