"""What `check` verifies: tools, credentials and keys."""
