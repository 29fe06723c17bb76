"""Nouns and rules of Headrace: values only, no I/O."""
