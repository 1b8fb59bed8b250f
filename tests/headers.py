"""Headers of records as Python has them."""

from __future__ import annotations

from frazil.records import HeaderList, Headers, UnreadableHeaders


def header_lists(headers: Headers) -> list[HeaderList]:
    """Return what `Headers.of` takes for these headers."""
    checked = headers.checked()
    found: list[HeaderList] = []
    for each, problem in zip(checked.lists.to_pylist(), checked.problems.to_pylist(), strict=True):
        if problem is not None:
            found.append(UnreadableHeaders(problem))
        else:
            found.append(each and [(header["key"].decode(), header["value"]) for header in each])
    return found
