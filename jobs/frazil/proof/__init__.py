"""The arithmetic of the proof: what a table must hold, what was counted, and what follows. It reads nothing itself."""
