"""Transitions of one shard, written once against its rows; a driver brings the rows and the atomic step."""
