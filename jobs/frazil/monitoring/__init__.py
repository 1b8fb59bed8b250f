"""Show the state of tables to programs and people that watch them: Prometheus, CloudWatch and one HTML page."""
