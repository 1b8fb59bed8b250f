"""The domain model: frozen values and errors. Imports only the standard library."""
