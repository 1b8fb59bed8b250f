"""The job's configuration as an object in the lake's bucket, named by its hash like the artefacts."""

from __future__ import annotations

from infra.artefacts.artefact import PREFIX
from infra.cdk import Construct, Fn, Local
from infra.components.frazil_config import FILE
from infra.components.stored_text import stored_text


class ConfigObject(Construct):
    """An object whose `address` depends on its content, so the configuration of a running job never changes.

    The content is known only when Terraform runs, and so is its hash.
    """

    def __init__(self, scope: Construct, construct_id: str, /, *, text: str, bucket: str, key_arn: str) -> None:
        super().__init__(scope, construct_id)
        self.text = Local(self, "text", text).as_string
        self.object = stored_text(
            self,
            "object",
            bucket=bucket,
            key=f"{PREFIX}/{Fn.sha256(self.text)}/{FILE}",
            text=self.text,
            content_type="application/yaml",
            key_arn=key_arn,
            create_before_destroy=True,
        )
        self.address = f"s3://{bucket}/{self.object.key}"
