"""Configuration: `frazil.yaml` and the table specs become typed values here and nowhere else.

`load.load_settings` is the way in. A key is declared once (`settings_keys`, `kafka_keys`, `table_keys`); the parser,
the reference pages and the JSON schemas for editors all come from that declaration.
"""
