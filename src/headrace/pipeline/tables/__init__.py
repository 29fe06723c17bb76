"""Tables made from the journal: one file and one pure function each.

Columns are added by `select`, not by `withColumn`: that would look up its frame at once, and a declarative pipeline
would not wait for the table that it comes from.
"""
