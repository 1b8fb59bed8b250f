"""`frazil doctor`: check that every service is reachable and permitted, with a hint for each failure.

`examine` asks part after part and gives findings; no part keeps another from being asked, and none is waited for long.
Nothing is changed: the one object that is written, to see whether that is allowed, is removed again.
"""
