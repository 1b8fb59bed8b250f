"""AWS services, through boto3."""
