"""Configuration: parse `frazil.yaml` and the table specs into typed values.

The entry point is `load.load_settings`. Each key is declared once (`settings_keys`, `kafka_keys`, `table_keys`); the
parser, the reference pages and the JSON schemas for editors use that declaration.
"""
