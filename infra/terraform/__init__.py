"""Terraform on this machine: its providers, the files beside a synthesized stack, and the variables of its process."""
