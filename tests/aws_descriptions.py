"""The descriptions of AWS's services, which boto3 reads for each of its sessions."""

from __future__ import annotations

import functools

from botocore.loaders import JSONFileLoader


def read_descriptions_of_aws_once() -> None:
    """Share what boto3 reads about each service between all sessions: parsing takes a second, and tests open many."""
    load = functools.cache(JSONFileLoader().load_file)
    JSONFileLoader.load_file = lambda self, file_path: load(file_path)
