"""Rotates keys: the function that AWS Secrets Manager calls when the key in a secret has become too old.

A rotation is four steps, each of which may be repeated and may die anywhere: a new key is born, made known to the
service beside the old one, proven by using it, and only then promoted. Until that moment, and whatever fails before it,
the old key is the current one and works.
"""
