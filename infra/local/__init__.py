"""Stand-ins for what cannot run on a laptop: Confluent Cloud's API, HCP Terraform's API, providers of Terraform."""
