"""The contract of every store; each protocol in a file of its own."""
