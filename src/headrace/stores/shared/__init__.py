"""What every driver shares: cursors of lists, look-ups by id, waiters."""
