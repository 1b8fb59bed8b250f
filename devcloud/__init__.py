"""Doubles of what cannot run on a laptop: Confluent Cloud, Snowflake, HCP Terraform, and providers of Terraform.

Used by tests and by `scripts/deploy.sh --profile=local`, each as a process of its own. Not part of the package.
"""
