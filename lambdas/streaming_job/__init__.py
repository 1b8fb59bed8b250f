"""Starts, replaces and stops the streaming job run of an EMR Serverless application."""
