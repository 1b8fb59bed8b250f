"""Ten tables in all write modes for half an hour, with maintenance on and faults (`python -m bench.soak`).

Everything is done by public commands, in a folder of its own. `setting.py` says which tables there are, `records.py`
writes their records, `faults.py` kills and stops things, `watch.py` looks at sizes, and `ends.py` at what is left.
"""
