"""A preview of `materialize` for `explain` and `check`, which changes nothing."""
