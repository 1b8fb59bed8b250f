"""`frazil export` as a command of its own: from a Glue catalog to S3, killed on the way, and run again."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from breadth import Place, bucket_of, catch_up, glue_catalog

from frazil.adapters.storage.export_folder import ExportFolder
from tests.fakes.slow_s3 import slow_s3

ROWS = 1_000
EXPORT = [sys.executable, "-m", "frazil.cli.app", "export", "orders_all", "--from", "2020-01-01", "--to", "2100-01-01"]


@pytest.fixture
def place(place: Place) -> Place:
    return replace(place, catalog=glue_catalog(place.services))


@pytest.fixture
def bucket(place: Place) -> Any:
    return bucket_of(place)


def exported(place: Place, bucket: Any) -> None:
    topic = place.topic()
    spec = f"topic: {topic}\ntable: orders\nvalue: string\n"
    place.send(topic, *(f"order {n}".encode() for n in range(ROWS)))
    catch_up(place.run(spec))
    (place.folder / "exports").mkdir()
    (place.folder / "exports" / "orders_all.yaml").write_text(
        f"table: orders\nto: s3://{bucket.name}/exports\nwindow: {{column: kafka_timestamp}}\npart_rows: 50\n"
    )


def objects(bucket: Any) -> list[Any]:
    """Return the files, without the empty object with which Arrow marks a folder after it removed a file."""
    return [each for each in bucket.objects.filter(Prefix="exports/") if not each.key.endswith("/")]


def contents(bucket: Any) -> dict[str, bytes]:
    """Return the files by name."""
    return {Path(each.key).name: each.get()["Body"].read() for each in objects(bucket)}


def test_a_killed_export_to_s3_is_completed_by_the_next_run(place: Place, bucket: Any) -> None:
    exported(place, bucket)
    command = [*EXPORT, "--config", str(place.folder / "frazil.yaml")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(objects(bucket)) < 3:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = contents(bucket)

    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)

    (manifest,) = json.loads(done.stdout)
    after = contents(bucket)
    assert "progress.json" in before and "manifest.json" not in before
    assert set(after) == {"manifest.json", *(part["name"] for part in manifest["parts"])}
    assert (manifest["rows"], len(manifest["parts"])) == (ROWS, ROWS // 50)
    assert all(hashlib.sha256(after[part["name"]]).hexdigest() == part["sha256"] for part in manifest["parts"])
    assert all(
        after[name] == content for name, content in before.items() if not name.endswith(("progress.json", ".new"))
    )
    rows = [line for part in manifest["parts"] for line in after[part["name"]].decode().splitlines()[1:]]
    assert len(set(rows)) == ROWS


def test_a_large_file_gets_its_name_though_s3_is_silent_while_it_copies() -> None:
    copied: list[str] = []
    with slow_s3(4, copied) as endpoint:
        login = {"s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.region": "us-east-1"}
        folder = ExportFolder({"s3.endpoint": endpoint, **login}, "s3://lake/exports/weekly")
        file = folder.open("part_1.csv")
        file.write(b"1\r\n")

        file.close()

    assert copied == ["/lake/exports/weekly/part_1.csv"], "Arrow gives up after 3 silent seconds, and tries again"
