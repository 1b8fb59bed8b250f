"""Pages and reports: the reference of settings, the picture of resources, and what they cost."""
