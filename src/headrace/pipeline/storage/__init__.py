"""Tables of Parquet files on a disk or on object storage, which Spark's tasks write and a log makes visible.

A table is a `Location`, a `Layout` (columns, partitions, order of rows) and a transaction log: Delta's, or one manifest
on a local disk (`form="parquet"`). Written and read in ten lines:

    table = open_table(Location.parse("s3://bucket/data/usage"), LAYOUT)
    table.prepare()                                      # made if it is new
    now = table.version()
    if now.batch("app") != 8:                            # a batch is committed once, whoever was killed
        files = write_files(frame, table, batch=8)       # by the tasks; nobody sees them yet
        old = now.files([("day", "in", days)])           # what they replace; none appends
        table.commit(files, replace=old, batch=("app", 8), state={"done": 17})
    table.read(spark, where=[("day", "=", day)])         # a DataFrame that opens only files which may match

Drivers and tasks reach storage through pyarrow and the package deltalake: a cluster needs no connector of its own.
Credentials come from the environment of each process, and are in no option, plan or log.
"""
