"""The `frazil` command, its configuration, and the tables that it makes."""
