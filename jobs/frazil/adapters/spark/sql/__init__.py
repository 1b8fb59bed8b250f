"""Spark SQL over rows of Iceberg tables, which Python workers read and write."""
