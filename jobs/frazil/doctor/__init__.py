"""`frazil doctor`: check that every service is reachable and permitted, with a hint for each failure.

`examine` checks one part after the other and yields findings. A failed part does not prevent other checks, and every
check has a time limit. Nothing is changed: the only object written, to test the permission, is removed again.
"""
