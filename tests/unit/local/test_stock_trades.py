from __future__ import annotations

import io
import json
from itertools import islice

import fastavro

from frazil.local import stock_trades
from frazil.local.stock_trades import encoded_trades, schema_text

SCHEMA = fastavro.parse_schema(json.loads(schema_text()))


def decode(body: bytes) -> dict[str, str | int]:
    stream = io.BytesIO(body)
    trade = fastavro.schemaless_reader(stream, SCHEMA)
    assert stream.read() == b""
    return trade


def test_the_same_seed_gives_the_same_trades() -> None:
    assert list(encoded_trades(100, seed=7)) == list(encoded_trades(100, seed=7))
    assert list(encoded_trades(100, seed=7)) != list(encoded_trades(100, seed=8))


def test_a_longer_run_begins_with_the_shorter_one() -> None:
    assert list(encoded_trades(10, seed=0)) == list(islice(encoded_trades(100, seed=0), 10))


def test_a_trade_reads_back_through_an_avro_library() -> None:
    key, body = next(encoded_trades(1, seed=0))

    assert (key, decode(body)) == (
        b"User_9",
        {"side": "SELL", "quantity": 2823, "symbol": "ZVZZT", "price": 213, "account": "LMN456", "userid": "User_9"},
    )


def test_every_trade_stays_within_the_quickstarts_values() -> None:
    for key, body in encoded_trades(5_000, seed=1):
        trade = decode(body)

        assert trade["side"] in stock_trades.SIDES
        assert trade["symbol"] in stock_trades.SYMBOLS
        assert trade["account"] in stock_trades.ACCOUNTS
        assert 1 <= int(trade["quantity"]) <= 5000
        assert 5 <= int(trade["price"]) <= 1000
        assert key.decode() == trade["userid"] in stock_trades.USERS
