"""What a job run is made of, packed so that the same sources give the same bytes, and kept under their hashes."""
