"""The data pipeline on Spark: the journal as a DataFrame, and tables made from it."""
