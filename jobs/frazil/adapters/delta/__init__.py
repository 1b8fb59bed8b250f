"""Delta logs, through delta-rs."""
