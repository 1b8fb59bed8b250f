"""One batch, step by step: evolve → plan → ingest → stage → publish → announce. `run.py` calls them in order."""
