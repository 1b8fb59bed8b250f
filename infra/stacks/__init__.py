"""The stacks, one per file; each is applied separately."""
