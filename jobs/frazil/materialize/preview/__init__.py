"""What `materialize` would do, nothing done: asked by `explain` and `check`."""
