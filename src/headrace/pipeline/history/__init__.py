"""The history: every event of the journals in files that any engine reads, each exactly once."""
