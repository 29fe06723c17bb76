"""The contract's calls made of transitions, for drivers whose atomic step runs Python: memory and SQLite."""
