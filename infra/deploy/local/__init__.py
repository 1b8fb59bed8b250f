"""The services of the local cloud."""
