"""What `delete` lists, empties and reports."""
