"""The only code that talks to external systems: one folder, or one file, for each."""
