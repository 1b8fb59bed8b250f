"""The nouns: frozen values and errors. Imports the standard library only."""
