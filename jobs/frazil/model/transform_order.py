"""The order of transformations that follow each other's tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from frazil.model.transforms import TransformSpec


def followed_by(spec: TransformSpec, specs: Sequence[TransformSpec]) -> Iterator[TransformSpec]:
    """Yield the transformation whose table this one follows, the one that that follows, and so on.

    In a cycle, the last one is the transformation itself, or one that was yielded before.
    """
    by_table = {each.identifier: each for each in specs}
    here, seen = spec, {spec.identifier}
    while (before := by_table.get(here.source)) is not None:
        yield before
        if before.identifier in seen:
            return
        seen.add(before.identifier)
        here = before


def in_order(specs: Sequence[TransformSpec]) -> tuple[TransformSpec, ...]:
    """Return the transformations, each after the one that it follows. There must be no cycle."""
    return tuple(sorted(specs, key=lambda spec: sum(1 for _ in followed_by(spec, specs))))


def following(specs: Sequence[TransformSpec], tables: Collection[str]) -> tuple[TransformSpec, ...]:
    """Return those that follow one of the tables, directly or through others, in their order."""
    return tuple(
        spec for spec in in_order(specs) if any(each.source in tables for each in (spec, *followed_by(spec, specs)))
    )
