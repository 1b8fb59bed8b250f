"""The example of sales channels as a setting of drivers that are killed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.faults.world import Setting
from tests.sales_example import SalesExample

BATCH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class SalesSetting(Setting):
    """Travels between processes as its folder: each looks up the keys of masks where it uses them."""

    example: SalesExample

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return setting_of, (self.example,)


def setting_of(example: SalesExample) -> SalesSetting:
    settings = example.settings()
    (spec,) = settings.tables
    in_batches = replace(spec, trigger=replace(spec.trigger, rows=BATCH))
    return SalesSetting(example.services, settings.catalog, in_batches, example=example)
