"""The stacks of one deployment, synthesized and applied, and their states."""
