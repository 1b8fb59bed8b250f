"""What runs in AWS Lambda: each folder is one function, packed alone, and imports no other folder of the project."""
