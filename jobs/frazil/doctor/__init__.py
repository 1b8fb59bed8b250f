"""`frazil doctor`: is every part reachable and permitted, and what mends the one that is not.

`examine` asks part after part and gives findings; no part keeps another from being asked, and none is waited for long.
Nothing is changed: the one object that is written, to see whether that is allowed, is removed again.
"""
