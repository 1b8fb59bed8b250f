"""`make demo`: the main job on a real broker, killed on the way, and what is left of it afterwards."""
