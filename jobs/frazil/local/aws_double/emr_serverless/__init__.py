"""EMR Serverless: applications and job runs as the API tells them, where StartJobRun really runs the job.

moto's own has applications that are STARTED when they are made (Terraform waits for CREATED), forgets half of what
they are made with, knows no release label of today, and calls every job run a SUCCESS at once.
"""
