"""Divide a chunk's records by the tables of a group: the first route whose conditions all hold takes a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.decoder import Indexes
from frazil.formats.framing import Framed, Group
from frazil.formats.open import record_name
from frazil.materialize.ingest.decoders import SchemasById
from frazil.materialize.ingest.field_conditions import FieldJudge, Mask
from frazil.materialize.ingest.named_records import MessageNames, NamedRecords
from frazil.materialize.ingest.payloads import all_refused
from frazil.model.dead_letter import Reason, Reject
from frazil.model.policies import NO_POLICIES
from frazil.model.routes import HeaderCondition, Route
from frazil.model.schemas import RegisteredSchema
from frazil.model.spec import CONFLUENT, FormatSettings, WireFormat
from frazil.records import Headers

_NO_ROUTE = -1


@dataclass(frozen=True, slots=True)
class Divided:
    """A chunk's values by route, with the indexes of the chunk. `rejects` are the records that no route takes."""

    framed: tuple[Framed, ...]
    route_of: npt.NDArray[np.int64]
    rejects: Mapping[int, Reject]

    def taken_by(self, route: int) -> Indexes:
        """Return the indexes of the route's records."""
        return np.flatnonzero(self.route_of == route)


class Router:
    """Divides chunks by routes. `schemas` are those of the group's values, which `first_stop` has found to be known.

    `settings` are those of the values in each route's table, whatever their policies are.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        schemas: SchemasById,
        settings: Sequence[FormatSettings],
        wire_format: WireFormat = CONFLUENT,
    ) -> None:
        self._routes = tuple(routes)
        self.schemas = schemas
        self._names = MessageNames(wire_format) if any(route.schema for route in routes) else None
        unmasked = [replace(each, policies=NO_POLICIES, hash_key=None) for each in settings]
        judges = {each: FieldJudge(schemas, each, wire_format) for each in unmasked}
        self._judges = [judges[each] for each in unmasked]

    @property
    def reads_headers(self) -> bool:
        return any(route.headers for route in self._routes)

    def divide(self, values: pa.LargeBinaryArray, framed: Framed, headers: Headers) -> Divided:
        """Return which route takes each record.

        A record without a known schema is a dead letter of the group, whatever its headers are.
        """
        route_of = np.full(len(headers), _NO_ROUTE, np.int64)
        nulls = np.asarray(framed.nulls, np.int64)
        masks = [_holds_undecoded(route, headers, nulls) for route in self._routes]
        rejects = {reject.index: reject for reject in framed.unframed}
        for group in framed.groups:
            found = None if group.schema_id is None else self.schemas.schema(group.schema_id)
            if isinstance(found, Reason):
                refused = all_refused(group.schema_id, found, group.indexes, len(headers))
                rejects |= {reject.index: reject for reject in refused}
                continue
            named = self._named(values, group, _chosen(group, len(headers)), found)
            rejects |= named.rejects
            for name, chosen in named.parts:
                bad = self._judge_fields(values, replace(group, indexes=chosen), name, masks)
                route_of[chosen] = self._first(chosen, name, masks)
                missed = chosen[route_of[chosen] == _NO_ROUTE].tolist()
                rejects |= {index: bad.get(index) or Reject(index, Reason.NO_ROUTE, _detail(name)) for index in missed}
        route_of[nulls] = self._first(nulls, None, masks)
        missed = nulls[route_of[nulls] == _NO_ROUTE].tolist()
        rejects |= {index: Reject(index, Reason.NULL_VALUE, "the value is null, no route takes it") for index in missed}
        parts = tuple(_part(framed, route_of == place) for place in range(len(self._routes)))
        return Divided(parts, route_of, rejects)

    def _first(self, chosen: Indexes, name: str | None, masks: Sequence[Mask]) -> npt.NDArray[np.int64]:
        """Return the first route that takes each of these records, whose schema has this name."""
        found = np.full(len(chosen), _NO_ROUTE, np.int64)
        for place, (route, mask) in enumerate(zip(self._routes, masks, strict=True)):
            if route.schema in (None, name):
                found[(found == _NO_ROUTE) & mask[chosen]] = place
        return found

    def _named(
        self, values: pa.LargeBinaryArray, group: Group, chosen: Indexes, schema: RegisteredSchema | None
    ) -> NamedRecords:
        """Return the group's records by their names, as far as a route asks for one."""
        if self._names is None:
            return NamedRecords([(None if schema is None else record_name(schema), chosen)])
        return self._names.divide(values, group, chosen, schema)

    def _judge_fields(
        self, values: pa.LargeBinaryArray, group: Group, name: str | None, masks: Sequence[Mask]
    ) -> Mapping[int, Reject]:
        """Note in the masks of routes which records have their fields. Return the records that cannot be decoded."""
        deciding = [
            (judge, route, mask)
            for judge, route, mask in zip(self._judges, self._routes, masks, strict=True)
            if route.fields and route.schema in (None, name)
        ]
        rejects: dict[int, Reject] = {}
        for judge in dict.fromkeys(judge for judge, _, _ in deciding):
            own = [(route, mask) for by, route, mask in deciding if by is judge]
            conditions = tuple(dict.fromkeys(condition for route, _ in own for condition in route.fields))
            judged = judge.judge(values, group, conditions)
            for route, mask in own:
                for condition in route.fields:
                    mask[group.indexes] &= judged.holds[condition][group.indexes]
            rejects |= judged.rejects
        return rejects


def _holds_undecoded(route: Route, headers: Headers, nulls: Indexes) -> Mask:
    """Return for which records those conditions of a route hold that need no decoding. A null value has no field."""
    holds = np.ones(len(headers), np.bool_)
    for condition in route.headers:
        holds &= _holds(condition, headers)
    if route.fields:
        holds[nulls] = False
    return holds


def _holds(condition: HeaderCondition, headers: Headers) -> Mask:
    last = headers.last(condition.key.encode())
    equal = pc.equal(last, pa.scalar(condition.value.encode(), pa.large_binary()))
    holds: Mask = pc.fill_null(equal, fill_value=False).to_numpy(zero_copy_only=False)
    return holds


def _chosen(group: Group, count: int) -> Indexes:
    return np.arange(count) if group.indexes is None else group.indexes


def _part(framed: Framed, mine: Mask) -> Framed:
    """Return the values of one route."""
    if mine.all():
        return replace(framed, unframed=())
    groups = []
    for group in framed.groups:
        chosen = _chosen(group, len(mine))
        kept = chosen[mine[chosen]]
        if len(kept):
            groups.append(replace(group, indexes=kept))
    return Framed(tuple(groups), tuple(index for index in framed.nulls if mine[index]), ())


def _detail(name: str | None) -> str:
    return (
        f"no route takes a record of the schema {name} with these headers and fields"
        if name
        else "no route takes the record"
    )
