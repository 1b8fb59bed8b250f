"""One stack a file, in the order of the files that need each other; each is applied by itself."""
