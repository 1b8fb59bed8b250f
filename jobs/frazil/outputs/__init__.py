"""Output topics: a committed table becomes records of a topic, each epoch once (docs/outputs.md)."""
