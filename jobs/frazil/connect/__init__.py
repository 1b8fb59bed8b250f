"""How other engines read a table: texts that are ready to paste."""
