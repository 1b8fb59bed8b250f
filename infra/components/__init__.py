"""Components that stacks are made of."""
