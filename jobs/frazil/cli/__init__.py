"""The command line: one file a verb, each with `register(app)`; `app.py` puts them together."""
