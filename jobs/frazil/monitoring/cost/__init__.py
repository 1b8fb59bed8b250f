"""What tables cost in AWS: read from their snapshots and priced by the list of prices, also for other settings."""
