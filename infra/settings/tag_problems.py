"""What no single tag shows: tags that exclude each other, and too many of them."""

from __future__ import annotations

from collections.abc import Iterator

from frazil.specs.keys import Values
from frazil.specs.problems import Problem
from infra.settings import keys
from shared.naming import OWN_TAGS

MOST_TAGS = 40
"""AWS takes 50 for a resource; the rest is for Frazil's own."""


def tag_problems(values: Values) -> Iterator[Problem]:
    """Yield the problems of the tags. To IAM, names that differ in case only are the same tag."""
    place, seen = values.place_of(keys.TAGS), {name: name for name in OWN_TAGS}
    for name in values[keys.TAGS]:
        same = seen.setdefault(name.lower(), name)
        if same in OWN_TAGS:
            what = f"the tag {name} is reserved for Frazil" + ("" if name == same else f", which has {same}")
            yield Problem(place, what, f"choose another name, such as company-{same}: IAM ignores the case of names")
        elif same != name:
            yield Problem(place, f"{same} and {name} are one tag to IAM, which ignores the case", "remove one of them")
    if len(values[keys.TAGS]) > MOST_TAGS:
        yield Problem(place, f"expected at most {MOST_TAGS} tags, found {len(values[keys.TAGS])}", "remove some")
