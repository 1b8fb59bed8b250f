"""What scripts/deploy.sh calls: each step of create, delete, plan, check and outputs, and nothing about their order."""
