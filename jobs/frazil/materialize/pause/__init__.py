"""When a table pauses, what is kept of why, and what `resume` lets through."""
