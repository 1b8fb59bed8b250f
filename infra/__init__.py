"""The cloud that Frazil runs in: stacks of Terraform, written in Python."""
