"""The command line: one file per command, each with `register(app)`. `app.py` registers all of them."""
