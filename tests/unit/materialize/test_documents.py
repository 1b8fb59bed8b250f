"""Change events of MongoDB, whose documents are texts: inserts, both kinds of updates, and deletes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from change_streams import ChangeStream

from frazil.dead_letters import list_dead_letters
from frazil.model.change_events import ChangeEvents
from frazil.model.dead_letter import Reason
from frazil.model.progress import Counts
from tests.fakes.connect_samples import STRING, struct
from tests.fakes.debezium_samples import MONGODB, Event, mongodb

KEY = struct("app.app.users.Key", id=STRING)
ANNE = '{"$oid": "596e275826f08b2730779e1f"}'
BOB = '{"$numberLong": "1004"}'
UPDATED: Event = {
    "removedFields": ["phone"],
    "updatedFields": '{"first_name": "Anne Marie"}',
    "truncatedArrays": [{"field": "tags", "size": 1}],
}


def document(key: str, **fields: Any) -> str:
    return json.dumps({"_id": json.loads(key), **fields})


class Documents(ChangeStream):
    @classmethod
    def of(cls, folder: Path, form: str, events: ChangeEvents | None = None, **changes: Any) -> Documents:
        made = cls.at(folder, events, form, **changes)
        assert isinstance(made, cls)
        made.keys = KEY
        made.register("key", KEY)
        made.register("value", MONGODB)
        return made

    def put(self, key: str, event: Event | None) -> None:
        self.send({"id": key}, event, MONGODB)


@pytest.fixture(params=["avro", "json"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def users(tmp_path: Path, form: str) -> Documents:
    return Documents.of(tmp_path, form)


def test_inserts_updates_with_the_document_and_deletes_are_the_present_documents(users: Documents) -> None:
    users.put(ANNE, mongodb("r", after=document(ANNE, first_name="Anne")))
    users.put(BOB, mongodb("c", after=document(BOB, first_name="Bob")))
    users.catch_up()
    whole = document(ANNE, first_name="Anne Marie", tags=["a"])
    users.put(ANNE, mongodb("u", after=whole, update=UPDATED))
    users.put(BOB, mongodb("d"))
    users.put(BOB, None)
    users.catch_up()

    assert users.rows("kafka_key", "document", "__op") == [({"id": ANNE}, whole, "u")]
    assert users.verified().counts == Counts(read=5, rows=3, deletes=2)


def test_an_update_that_only_describes_the_change_is_a_dead_letter(users: Documents) -> None:
    first = document(ANNE, first_name="Anne", phone="1", tags=["a", "b"])
    users.put(ANNE, mongodb("c", after=first))
    users.catch_up()
    users.put(ANNE, mongodb("u", update=UPDATED))
    users.put(BOB, mongodb("u", update=UPDATED))
    users.catch_up()

    assert users.rows("document", "__op", "kafka_offset") == [(first, "c", 0)]
    assert users.verified().counts == Counts(read=3, rows=1, dead_letters=2)
    letters = list_dead_letters(users.world.lake, users.spec, limit=9).newest
    assert {each.reason for each in letters} == {Reason.PARTIAL_UPDATE}
    assert all("capture.mode: change_streams_update_full" in each.detail for each in letters)


@pytest.mark.parametrize("soft", [False, True])
def test_an_update_that_does_not_even_describe_the_change_is_a_dead_letter(
    tmp_path: Path, form: str, soft: bool
) -> None:
    """Connectors before 2.0 describe it in the field `patch`."""
    users = Documents.of(tmp_path, form, ChangeEvents(soft_deletes=soft), on_tombstone="skip" if soft else "delete")
    users.put(ANNE, mongodb("c", after=document(ANNE, first_name="Anne")))
    users.put(ANNE, mongodb("u"))
    users.put(BOB, mongodb("u"))
    users.catch_up()

    assert users.rows("document", "__op", "kafka_offset") == [(document(ANNE, first_name="Anne"), "c", 0)]
    assert users.verified().counts == Counts(read=3, rows=1, dead_letters=2)


def test_an_update_whose_document_was_deleted_meanwhile_is_followed_by_its_delete(users: Documents) -> None:
    users.put(ANNE, mongodb("c", after=document(ANNE)))
    users.put(ANNE, mongodb("u", update=UPDATED))
    users.put(ANNE, mongodb("d"))
    users.put(ANNE, None)
    users.catch_up()

    assert users.rows("document") == []
    assert users.verified().counts == Counts(read=4, rows=1, deletes=2, dead_letters=1)


def test_a_document_that_was_replaced_and_an_empty_one_are_rows(users: Documents) -> None:
    users.put(ANNE, mongodb("c", after=document(ANNE, first_name="Anne", phone="1")))
    users.put(ANNE, mongodb("u", after=document(ANNE, nested={"a": [1, {"b": None}]})))
    users.put(BOB, mongodb("c", after="{}"))
    users.catch_up()

    assert users.rows("document") == [("{}",), (document(ANNE, nested={"a": [1, {"b": None}]}),)]
    users.verified()


def test_soft_deletes_keep_the_document_and_take_the_pre_image_where_there_is_none(tmp_path: Path, form: str) -> None:
    users = Documents.of(tmp_path, form, ChangeEvents(soft_deletes=True), on_tombstone="skip")
    users.put(ANNE, mongodb("c", after=document(ANNE, first_name="Anne")))
    users.put(ANNE, mongodb("d", before=document(ANNE, first_name="before")))
    users.put(ANNE, None)
    users.put(BOB, mongodb("d", before=document(BOB, first_name="Bob")))
    users.catch_up()

    assert users.rows("document", "__deleted") == [
        (document(BOB, first_name="Bob"), True),
        (document(ANNE, first_name="Anne"), True),
    ]
    users.verified()


def test_the_source_orders_documents_by_their_time_and_its_ordinal(tmp_path: Path, form: str) -> None:
    events = ChangeEvents(connector="mongodb")
    users = Documents.of(tmp_path, form, events, on_tombstone="skip")
    users.put(ANNE, mongodb("u", after=document(ANNE, first_name="newest"), ord_=3))
    users.catch_up()
    users.put(ANNE, mongodb("u", after=document(ANNE, first_name="late"), ord_=2))
    users.put(ANNE, mongodb("u", update=UPDATED, ord_=4))
    users.catch_up()

    assert users.rows("document", "__position_ord") == [(document(ANNE, first_name="newest"), 3)]
    assert users.verified().counts == Counts(read=3, rows=1, duplicates=1, dead_letters=1)
