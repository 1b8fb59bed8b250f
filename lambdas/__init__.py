"""AWS Lambda functions: one folder each, packed alone; a function imports no other function, and no stack."""
