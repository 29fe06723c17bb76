"""The contract's calls as transitions over rows: for drivers whose atomic step runs Python."""
