"""Plan the next version of a Delta log over the files of an Iceberg snapshot. Pure functions."""
