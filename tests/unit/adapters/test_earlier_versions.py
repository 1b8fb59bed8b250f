"""Earlier versions of objects that are gone, or that may not be read."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from frazil.adapters.iceberg.earlier_versions import EarlierVersion, EarlierVersions
from frazil.model.errors import CatalogError

VERSION = EarlierVersion("s3://lake/orders/data/1.parquet", "v1")


class Refusing:
    def __init__(self, code: str) -> None:
        self.code = code

    def download_fileobj(self, *given: Any, **more: Any) -> None:
        del given, more
        raise ClientError({"Error": {"Code": self.code, "Message": ""}}, "HeadObject")


def opened(code: str) -> None:
    versions = EarlierVersions({})
    versions.__dict__["_s3"] = Refusing(code)
    versions.files(VERSION).new_input(VERSION.address).open()


@pytest.mark.parametrize("code", ["404", "NoSuchVersion"])
def test_a_version_that_a_rule_of_the_bucket_has_deleted_meanwhile_is_gone(code: str) -> None:
    with pytest.raises(FileNotFoundError):
        opened(code)


def test_a_version_that_may_not_be_read_names_the_permission() -> None:
    with pytest.raises(CatalogError, match="AccessDenied") as refused:
        opened("AccessDenied")

    assert "s3:GetObjectVersion" in (refused.value.hint or "")
