"""Records that a client should not return: offsets before those that it returned, and records of another partition."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from frazil.adapters.kafka import reader
from frazil.adapters.kafka.batch_consumer import why_not_native
from frazil.adapters.kafka.partition_consumer import Polled, PollLimits
from frazil.adapters.kafka.reader import KafkaReader
from frazil.model.errors import BrokerError
from frazil.model.plan import OffsetRange
from frazil.records import OptionalFields, Records

RANGE, PLAIN = OffsetRange("orders", 0, 0, 5, 5, 10), OptionalFields(timestamp_type=False, leader_epoch=False)
NEEDS_NATIVE = pytest.mark.skipif(why_not_native() is not None, reason="the native module is not built")


class Truncated:
    """Returns the records of these offsets, a list for each poll (`PartitionConsumer`)."""

    def __init__(self, *polls: list[int]) -> None:
        self._polls = list(polls)

    def forget_errors(self) -> None: ...

    def assign(self, ranges: object) -> None: ...

    def unassign(self) -> None: ...

    def poll(self, wanted: OffsetRange, limits: PollLimits, optional: OptionalFields) -> Polled:
        del wanted, limits, optional
        offsets, nothing = self._polls[0], [None] * len(self._polls.pop(0))
        return Polled(Records.of(offsets, [0] * len(offsets), nothing, nothing, nothing, next_offset=offsets[-1] + 1))


def test_a_partition_that_is_truncated_while_it_is_read_fails_the_range(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log was cut at 1, and has new records from there on."""
    monkeypatch.setattr(reader, "open_consumer", lambda *_: Truncated([0, 1, 2], [1, 2]))
    ends: list[int] = []

    with pytest.raises(BrokerError) as refused:
        ends.extend(chunk.next_offset for chunks in KafkaReader({}).read([RANGE], PLAIN) for chunk in chunks)

    assert ends == [3]
    assert refused.value.what == "orders-0: the broker returned offset 1, expected 3 or later"
    assert refused.value.hint == (
        "the partition was truncated during the read; the next run compares it with the table"
    )


LIBRARY = """
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
typedef struct { int err; void *topic; int32_t partition; void *value; size_t len; void *key; size_t key_len;
                 int64_t offset; void *private; } message;
typedef struct { void *topic; int32_t partition; int64_t offset; void *rest[5]; } place;
static char anything;
static place one;
static message sent = {.partition = 7};
int rd_kafka_version(void) { return 0x020300ff; }
ssize_t rd_kafka_consume_batch_queue(void *queue, int wait, message **into, size_t size) {
    into[0] = &sent;
    return size > 0;
}
place *rd_kafka_topic_partition_list_add(void *list, const char *topic, int32_t partition) { return &one; }
"""
POINTERS = (
    *("conf_new", "new", "queue_get_consumer", "queue_get_main", "queue_get_partition", "topic_partition_list_new"),
    *("err2str", "error_string", "event_error_string", "message_errstr"),
)
ZEROS = (
    *("assign", "conf_destroy", "conf_set", "conf_set_error_cb", "conf_set_events", "conf_set_opaque"),
    *("consumer_close", "destroy", "error_code", "error_destroy", "event_destroy", "event_error", "event_type"),
    *("header_get_all", "incremental_assign", "incremental_unassign", "message_destroy", "message_headers"),
    *("message_leader_epoch", "message_timestamp", "oauthbearer_set_token", "oauthbearer_set_token_failure"),
    *("position", "queue_destroy", "queue_forward", "queue_poll", "topic_partition_list_destroy"),
)


@NEEDS_NATIVE
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
def test_a_record_of_another_partition_is_refused(tmp_path: Path) -> None:
    """A library that answers every poll with a record of partition 7, as one with another layout would."""
    import frazil_native  # noqa: PLC0415 - it may not be built

    source, library = tmp_path / "wrong.c", tmp_path / "wrong.so"
    pointers = "".join(f"void *rd_kafka_{name}(void) {{ return &anything; }}\n" for name in POINTERS)
    source.write_text(LIBRARY + pointers + "".join(f"long rd_kafka_{name}(void) {{ return 0; }}\n" for name in ZEROS))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    loaded = ctypes.CDLL(str(library))
    consumer = frazil_native.BatchConsumer(str(library), [], takes_tokens=False)
    consumer.add([("orders", 3, 0)])

    with pytest.raises(RuntimeError, match=r"^librdkafka returned a record of partition 7, expected 3$"):
        consumer.poll("orders", 3, most=1, most_bytes=1, one_by_one=True, end=9, wait_ms=0)

    consumer.close()
    assert loaded is not None
