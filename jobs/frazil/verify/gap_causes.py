"""Why offsets of a batch hold no committed record: what Kafka still has of them says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from frazil.proof.chain import Chain, GapCauses, Link, PartitionChain
from frazil.proof.verification import Verification


class Written(Protocol):
    """What a cluster has of a partition, records of aborted transactions included."""

    def earliest(self, topic: str, partition: int) -> int: ...
    def count(self, topic: str, partition: int, start: int, end: int) -> int: ...
    def compacts(self, topic: str) -> bool: ...


def with_causes(results: Sequence[Verification], written: Written) -> tuple[Verification, ...]:
    """Return the results with the causes of gaps in each batch. Raises BrokerError where Kafka does not answer."""
    return tuple(
        each if each.chain is None else replace(each, chain=_explained(each.chain, written)) for each in results
    )


def _explained(chain: Chain, written: Written) -> Chain:
    partitions = (replace(each, links=tuple(_links(each, written))) for each in chain.partitions)
    return replace(chain, partitions=tuple(partitions))


def _links(chain: PartitionChain, written: Written) -> Iterator[Link]:
    earliest = written.earliest(*chain.at) if any(link.gaps for link in chain.links) else 0
    for link in chain.links:
        yield link if not link.gaps else replace(link, causes=_causes(chain, link, written, earliest))


def _causes(chain: PartitionChain, link: Link, written: Written, earliest: int) -> GapCauses:
    """Return the causes of the gaps of one batch.

    Records that are there and were not read belong to aborted transactions. An offset without a record is the marker
    of a transaction, or its record was removed by compaction. What retention has deleted shows nothing.
    """
    if earliest > link.start:
        return GapCauses(unknown=link.gaps)
    topic, partition = chain.at
    committed = link.end - link.start - link.gaps
    aborted = min(max(written.count(topic, partition, link.start, link.end) - committed, 0), link.gaps)
    rest = link.gaps - aborted
    if written.compacts(topic):
        return GapCauses(aborted=aborted, compacted_or_markers=rest)
    return GapCauses(aborted=aborted, markers=rest)
