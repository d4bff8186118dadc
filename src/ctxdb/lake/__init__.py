"""The rows of a database as a partitioned Parquet dataset, which several machines can share."""
