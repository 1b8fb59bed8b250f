"""Log events with fields to stderr: `2026-01-31T12:00:00Z committed table=lake.orders rows=5`.

Any module writes them through the standard library: `LOG.info("committed", extra={"table": name, "rows": 5})`.
Fields are allow-listed by type: text, numbers, times, ids, paths, and lists of these. Any other value (settings,
connections, whole records) is logged as the name of its type, and a secret as ***.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import TextIO
from uuid import UUID

from frazil.cli.config_name import with_config_name
from frazil.model.secret import Secret
from frazil.specs.keys import is_sensitive

OURS = "frazil"
RUN = "run"
"""The last field of each line of a run that writes tables: the id that its snapshots have as `frazil.writer`."""

STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
MASK = "***"


def configure(stream: TextIO, level: int = logging.INFO) -> None:
    """Send our events to a stream, and only warnings of libraries. May be called again."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(EventFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger(OURS).setLevel(level)


_run_ids: list[str] = []


@contextmanager
def lines_of_run(run_id: str) -> Iterator[None]:
    """Put this id on each line until the end of the block."""
    _run_ids.append(run_id)
    try:
        yield
    finally:
        _run_ids.remove(run_id)


class EventFormatter(logging.Formatter):
    """Formats one line per event: the UTC time, the event and the fields in the order given, then any stack trace."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()} "
        given = [*fields_of(record).items(), *((RUN, run_id) for run_id in _run_ids[-1:])]
        fields = "".join(f" {name}={shown(name, value)}" for name, value in given)
        trace = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return f"{when} {level}{with_config_name(record.getMessage())}{with_config_name(fields)}{trace}"


def fields_of(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the fields that the caller passed as `extra`."""
    return {name: value for name, value in record.__dict__.items() if name not in STANDARD}


def shown(name: str, value: object) -> str:
    """Return a field's value as text for the log, quoted if it could be read as more than one field."""
    if isinstance(value, Secret) or is_sensitive(name):
        return MASK
    text = _text(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(sign in text for sign in ' "=\n') else text


def _text(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case Enum():
            return str(value.value)
        case str() | int() | float() | Decimal() | date() | timedelta() | PurePath() | UUID():
            return str(value)
        case Sequence() | frozenset() if not isinstance(value, bytes | bytearray):
            return ",".join(MASK if isinstance(each, Secret) else _text(each) for each in value)
        case _:
            return f"<{type(value).__name__}>"
