"""Maintenance that a command asks for."""
