"""Make the schema for fastavro: it reads the same bytes, has no logical types, and names every union branch.

fastavro converts logical types to Python's `datetime` and `Decimal`, whose range is smaller than Avro's. It returns the
value of a union without its branch, so each branch is wrapped in a record with one field, named after the branch, which
adds no bytes. Enum symbols are numbered, because fastavro accepts only ASCII symbols.
"""

from __future__ import annotations

from frazil.formats.avro.shape import branch_names
from frazil.formats.avro.types import NULL, Array, AvroSchema, AvroType, Enum, Fixed, Map, Primitive, Record, Ref, Union

Json = dict[str, object]


def plain_schema(schema: AvroSchema) -> Json:
    """Return the schema of one row for fastavro to parse."""
    return _Plain(schema).record(schema.row())


class _Plain:
    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._names: dict[str, str] = {}
        self._count = 0

    def record(self, record: Record) -> Json:
        name = self._named(record.name)
        fields = [{"name": field.name, "type": self._type(field.type)} for field in record.fields]
        return {"type": "record", "name": name, "fields": fields}

    def _type(self, avro_type: AvroType) -> object:
        match avro_type:
            case Primitive(name):
                return name
            case Array(items):
                return {"type": "array", "items": self._type(items)}
            case Map(values):
                return {"type": "map", "values": self._type(values)}
            case Union():
                return self._union(avro_type)
            case Ref(name):
                return self._names[name] if name in self._names else self._definition(name)

    def _definition(self, name: str) -> Json:
        named = self._schema.named[name]
        if isinstance(named, Record):
            return self.record(named)
        if isinstance(named, Fixed):
            return {"type": "fixed", "name": self._named(name), "size": named.size}
        return self._enum(named)

    def _enum(self, enum: Enum) -> Json:
        symbols = [f"s{index}" for index in range(len(enum.symbols))]
        return {"type": "enum", "name": self._named(enum.name), "symbols": symbols}

    def _union(self, union: Union) -> list[object]:
        if union.optional() is not None:
            return [self._type(branch) for branch in union.branches]
        names = branch_names(self._schema, union)
        return [self._branch(name, branch) for name, branch in zip(names, union.branches, strict=True)]

    def _branch(self, name: str, branch: AvroType) -> object:
        if branch == NULL:
            return "null"
        return {"type": "record", "name": self._fresh(), "fields": [{"name": name, "type": self._type(branch)}]}

    def _named(self, full_name: str) -> str:
        self._names[full_name] = self._fresh()
        return self._names[full_name]

    def _fresh(self) -> str:
        self._count += 1
        return f"n{self._count}"
