"""What several stacks are made of."""
