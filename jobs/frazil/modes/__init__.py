"""Write modes: how the records of a batch change their table, and how the table proves that they did."""
