"""Lets Spark find `format("headrace")` by itself: it looks into every package whose name starts with `pyspark_`."""

from headrace.pipeline.source.source import HeadraceSource as DefaultSource

__all__ = ["DefaultSource"]
