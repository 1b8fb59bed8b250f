"""EMR Serverless: the API of applications and job runs, in which StartJobRun runs the job with spark-submit.

moto's version starts every application at once (Terraform waits for CREATED), drops half of their settings, rejects
current release labels, and reports every job run as a SUCCESS without running it.
"""
