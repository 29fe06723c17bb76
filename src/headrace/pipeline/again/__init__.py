"""Work that is done again: dead letters by a condition, and jobs of the past out of the history."""
