"""Changes of a table's properties, whatever the table is then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException

ATTEMPTS = 5


def set_properties(catalog: Catalog, identifier: str, *, put: Mapping[str, str], remove: Sequence[str]) -> None:
    """Put and remove properties. If another commit comes first, the change is made again, on the table as it is then.

    Raises what the catalog raises, and CommitFailedException if other commits came first each time.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            with catalog.load_table(identifier).transaction() as transaction:
                transaction.set_properties(dict(put))
                there = transaction.table_metadata.properties.keys()
                transaction.remove_properties(*(name for name in remove if name in there))
        except CommitFailedException:
            if not left:
                raise
        else:
            return
