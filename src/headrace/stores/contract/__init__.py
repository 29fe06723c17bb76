"""What every store promises; each protocol in a file of its own."""
