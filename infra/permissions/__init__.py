"""IAM policies: of the roles that the stacks make, and of the profile that deploys."""
