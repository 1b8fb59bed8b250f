"""What Frazil is measured against, one file a peer."""
