"""A local Iceberg REST catalog: Iceberg's own server for tests, behind a front that checks secrets and tokens."""
