"""Writer schemas against a table: what fits, what can change safely, and what a table remembers of them."""
