"""Iceberg tables and their catalogs, through PyIceberg."""
