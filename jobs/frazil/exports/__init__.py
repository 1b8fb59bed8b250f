"""Export rows of a table to CSV or Parquet files, each set of files with a manifest."""
