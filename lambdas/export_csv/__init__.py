"""The function that runs one export, and announces what is finished.

It is packed with its packages (infra/artefacts/lambda_zip.py). What it runs is `frazil export`; what is its own is the
announcement.
"""
