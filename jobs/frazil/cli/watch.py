"""What `frazil materialize` does beside its batches so that they can be watched: a page, and metrics over HTTP."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from frazil.model.cloudwatch_names import NAMESPACE_VARIABLE, RUN_VARIABLE
from frazil.model.settings import STATUS_PAGE

if TYPE_CHECKING:
    from frazil.materialize.run import TableRun
    from frazil.model.receipt import Receipt
    from frazil.model.settings import Settings
    from frazil.model.snapshot import TableView
    from frazil.model.spec import TableSpec
    from frazil.monitoring.cloudwatch import CloudWatchLines
    from frazil.monitoring.keeper import PageKeeper
    from frazil.monitoring.process_metrics import ProcessMetrics
    from frazil.status import TableStatus
    from frazil.transforms.standing import TransformStanding


@dataclass(slots=True)
class Watch:
    """Keeps the status page of all tables of the configuration, and serves metrics of the tables of `runs`.

    It uses the clients of the runs, which follow rotated secrets. Without `metrics_port`, nothing is served.

    The age of keys is not shown: the role of a job may read the secrets, and nothing else about them.
    """

    settings: Settings
    runs: Sequence[TableRun]
    metrics_port: int | None
    cloudwatch: CloudWatchLines | None = None
    keeper: PageKeeper = field(init=False)
    counted: ProcessMetrics = field(init=False)

    def __post_init__(self) -> None:
        from frazil.monitoring.keeper import PageKeeper  # noqa: PLC0415 - `--help` needs none of it
        from frazil.monitoring.process_metrics import ProcessMetrics  # noqa: PLC0415

        self.keeper = PageKeeper(self.look, always=self.cloudwatch is not None)
        self.counted = ProcessMetrics(version=_version(), started=datetime.now(UTC))

    def batch_published(self, receipt: Receipt) -> None:
        self.counted.count(receipt)
        if self._keeps_page or self.cloudwatch is not None:
            self.keeper.batch_published()
        if self.cloudwatch is not None:
            _write_line(self.cloudwatch.of_batch(receipt, now=datetime.now(UTC)))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Serve metrics until the end of the block, then write the page. Raises SettingError if the port is taken."""
        if self.metrics_port is None:
            endpoint = None
        else:
            from frazil.monitoring.endpoint import Endpoint  # noqa: PLC0415

            endpoint = Endpoint(self.metrics_port, metrics=self.exposition, page=self.page)
            print(f"metrics: {endpoint.address}/metrics, status: {endpoint.address}/", file=sys.stderr)
        if self.cloudwatch is not None:
            self.keeper.start()
        try:
            yield
        finally:
            self.keeper.finish()
            if endpoint is not None:
                endpoint.stop()

    def look(self) -> None:
        """Write the page beside the tables, and metrics of this run's tables for CloudWatch. Raises CatalogError.

        With a REST catalog there is no page: its warehouse is a word, and only the catalog knows where tables are.
        """
        views: dict[str, TableView] = {}
        catalog, found = self.settings.catalog, self._look(self.settings.tables, views)
        if self.cloudwatch is not None:
            ours = {table.spec.identifier for run in self.runs for table in run.tables}
            filled = [each for each in found if each.table in ours]
            for line in self.cloudwatch.of_tables(filled, now=datetime.now(UTC)):
                _write_line(line)
        if self._keeps_page:
            from frazil.adapters.storage.status_page import put_page  # noqa: PLC0415

            name = self.settings.status_page or STATUS_PAGE
            put_page(catalog.properties, catalog.warehouse, name, self._page(found, views))

    @property
    def _keeps_page(self) -> bool:
        return self.settings.status_page is not None and self.settings.catalog.rest is None

    def page(self) -> str:
        """Return the page of all tables as they are now. Raises CatalogError."""
        views: dict[str, TableView] = {}
        return self._page(self._look(self.settings.tables, views), views)

    def _page(self, found: Sequence[TableStatus], views: Mapping[str, TableView]) -> str:
        from frazil.monitoring.history import read_histories  # noqa: PLC0415
        from frazil.monitoring.page import status_page  # noqa: PLC0415

        histories = read_histories(self.runs[0].clients.lake, self.settings.tables, views)
        title = f"Tables of {self.settings.database}"
        transforms = self._look_at_transforms([each.table for each in found])
        return status_page(found, histories, (), now=datetime.now(UTC), title=title, transforms=transforms)

    def exposition(self) -> str:
        from frazil.monitoring.prometheus import exposition  # noqa: PLC0415
        from frazil.monitoring.table_metrics import table_metrics  # noqa: PLC0415
        from frazil.monitoring.transform_metrics import transform_metrics  # noqa: PLC0415

        found = self._look([table.spec for run in self.runs for table in run.tables])
        transforms = self._look_at_transforms([each.table for each in found])
        of_transforms = transform_metrics(transforms, now=datetime.now(UTC))
        return exposition([*table_metrics(found), *of_transforms, *self.counted.metrics()])

    def _look_at_transforms(self, tables: Sequence[str]) -> list[TransformStanding]:
        """Return how far those are that follow the tables, directly or through others."""
        from frazil.model.transform_order import following  # noqa: PLC0415
        from frazil.transforms.standing import transform_standing  # noqa: PLC0415

        lake = self.runs[0].clients.lake
        return [transform_standing(lake, spec) for spec in following(self.settings.transforms, tables)]

    def _look(self, specs: Sequence[TableSpec], views: dict[str, TableView] | None = None) -> list[TableStatus]:
        from frazil.status import table_statuses  # noqa: PLC0415

        clients, now = self.runs[0].clients, datetime.now(UTC)
        logs = clients.delta_logs
        return list(table_statuses(clients.lake, clients.topics, specs, delta_logs=logs, now=now, views=views))


def cloudwatch_lines(environment: Mapping[str, str]) -> CloudWatchLines | None:
    """Return what makes lines for CloudWatch, or None if the environment names no namespace."""
    from frazil.monitoring.cloudwatch import CloudWatchLines  # noqa: PLC0415

    namespace = environment.get(NAMESPACE_VARIABLE)
    return None if not namespace else CloudWatchLines(namespace, environment.get(RUN_VARIABLE, "other"))


def _write_line(line: str) -> None:
    """Write a line at once, because several threads write to stdout."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _version() -> str:
    import importlib.metadata  # noqa: PLC0415

    try:
        return importlib.metadata.version("frazil")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
