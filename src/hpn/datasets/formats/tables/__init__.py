"""A user's own graph as two tables, its nodes and its edges, in CSV or Parquet, read by DuckDB."""
