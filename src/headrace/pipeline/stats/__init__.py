"""Statistics: windows as Parquet files and as items of the tenants' feeds, live or in one go."""
