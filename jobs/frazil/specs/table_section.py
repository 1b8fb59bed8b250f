"""The keys of a table spec, in the order of the reference."""

from __future__ import annotations

from frazil.specs import table_keys as keys
from frazil.specs.keys import Refused, Section
from frazil.specs.output_keys import OUTPUTS
from frazil.specs.policy_keys import COLUMNS, TAGS
from frazil.specs.route_keys import ROUTES
from frazil.specs.shape_keys import SHAPES
from frazil.specs.words_of_others import OF_OTHER_TOOLS

TABLE_SECTION = Section(
    (
        keys.TOPIC,
        keys.TOPICS,
        keys.TABLE,
        keys.DATABASE,
        ROUTES,
        SHAPES,
        keys.KEY,
        keys.VALUE,
        keys.WIRE_FORMAT,
        keys.FIELDS,
        COLUMNS,
        TAGS,
        keys.WRITE,
        keys.IDENTITY,
        keys.ORDER_BY,
        keys.DELETE_MEMORY,
        keys.CDC,
        keys.CDC_DELETES,
        keys.CDC_KEEP,
        keys.CDC_PLACEHOLDER,
        keys.CDC_ORDER,
        keys.CDC_CONNECTOR,
        keys.PARTITION_BY,
        keys.SORT_BY,
        keys.READERS,
        keys.ON_BAD_RECORD,
        keys.LIMIT,
        keys.ON_TOMBSTONE,
        keys.ON_SCHEMA,
        keys.EVOLUTION,
        keys.TRIGGER,
        keys.MAINTAIN,
        keys.FORMATS,
        OUTPUTS,
        keys.START,
        keys.METADATA,
        keys.SUBJECT,
        keys.KEY_SUBJECT,
        keys.MESSAGE,
        keys.KEY_MESSAGE,
        keys.STRING_FORMATS,
    ),
    refused=(Refused("policies", "the keys of policies belong in frazil.yaml", "move the key there"),),
    exactly_one=("topic", "topics"),
    elsewhere=OF_OTHER_TOOLS,
)
