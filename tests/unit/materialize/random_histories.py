"""A table to which anything happens: crashes, two drivers, other engines, rollbacks, rebuilds, replays."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

import pyarrow as pa
from followed_tables import FollowedTable
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import _dataframe_to_data_files

from frazil.adapters.iceberg.lake import IcebergLake
from frazil.adapters.iceberg.rebuild_lake import RebuildLake
from frazil.materialize.clients import STEPS
from frazil.materialize.rebuild.perform import Rebuild
from frazil.materialize.rebuild.rewind import Target, ToEarliest, ToOffsets
from frazil.materialize.rewrite_files import Rewriting
from frazil.materialize.run import TableRun
from frazil.materialize.state import CHECKPOINT_TAG
from frazil.model.errors import CommitUnknownError, FencedError, FrazilError, Misuse, RebuildError
from frazil.model.plan import NothingToDo
from tests.fakes.watched_lake import WatchedLake, at_commit

Act = Callable[[], None]


class KilledError(BaseException):
    """The process ends here."""


@dataclass(kw_only=True)
class Campaign(FollowedTable):
    """What happens to a table. The numbers of `draw` decide the details."""

    draw: random.Random

    def chance(self, percent: int) -> bool:
        return self.draw.randrange(100) >= 100 - percent

    def acts(self) -> Sequence[Act]:
        """Return what may happen between two batches, and during one."""
        own = (
            self.disturbed,
            self.dies_after_each_step,
            self.loses_commits,
            self.other_driver,
            self.rewrite,
            self.roll_back,
            self.evolve,
        )
        return (*own, self.rebuild, self.rewind, *self.of_others())

    def of_others(self) -> Sequence[Act]:
        return (self.compact, self.delete_row, self.insert, self.expire)

    def happens(self) -> set[str]:
        """Return what some history should have had."""
        return {act.__name__ for act in self.acts()} | {f"dies after {each}" for each in STEPS}

    def carry_out(self, act: Act, events: int) -> None:
        """Write some events, and let something happen."""
        for _ in range(events):
            self.send()
        self.log.append(act.__name__)
        act()

    def end(self) -> None:
        """Read the topic to its end, and compare all that there is to compare."""
        self.catch_up()
        self.check(whole=True)
        self.check_with_kafka()

    def send(self) -> None:
        raise NotImplementedError

    def evolve(self) -> None:
        """From now on, some events have a schema with another column."""
        raise NotImplementedError

    def forget(self) -> BooleanExpression | None:
        """Take a row out of the model, if it has any, and return which one."""
        raise NotImplementedError

    def row_of_others(self) -> dict[str, object]:
        """Return a row of columns that every table of this kind has."""
        raise NotImplementedError

    # --- drivers

    def driver(self, *, lake: Any = None, observe: Callable[[str, str], None] | None = None) -> TableRun:
        """A new process."""
        run = self.world.table(self.spec)
        run.clients = replace(
            run.clients,
            lake=lake or self.world.lake,
            now=lambda: self.now,
            new_id=lambda: uuid.uuid4().hex[:8],
            observe=observe or (lambda when, step: None),
        )
        return replace(run, writer=uuid.uuid4().hex[:8])

    def catch_up(self) -> None:
        run = self.driver()
        for _ in range(100):
            if isinstance(run.batch(), NothingToDo):
                return
        raise AssertionError("the topic does not end")

    def dies_after_each_step(self) -> None:
        """Let drivers die, one after each step of a batch, and compare the table after each of them."""
        for step in self.draw.sample(STEPS, len(STEPS)):
            self.send()
            self.dies_after(step, lambda run: run.batch())
        self.did("dies_after_each_step")

    def dies_after(self, step: str, act: Callable[[TableRun], object]) -> None:
        run = self.driver(observe=once(("after", step), self.killed))
        try:
            act(run)
        except KilledError:
            self.did(f"dies after {step}")
        self.check(whole=False)

    def loses_commits(self) -> None:
        """Let drivers lose a commit, or the answer to one that was done."""
        for before in (True, False):
            self.send()
            run = self.driver(lake=self._watched(self.draw.randint(1, 4), self._is_lost, before=before))
            with suppress(FrazilError):
                run.batch()
            self.check(whole=False)
        self.did("loses_commits")

    def _is_lost(self) -> None:
        raise CommitUnknownError("the answer was lost")

    def disturbed(self) -> None:
        """One batch or a few, in which something happens at a moment or at a commit."""
        act = self.draw.choice([self.killed, self.killed, self.other_driver, self.rewrite, *self.of_others()])
        if self.chance(50):
            moment = (self.draw.choice(["before", "after"]), self.draw.choice(STEPS))
            self.log.append(f"  {act.__name__} {moment}")
            run = self.driver(observe=once(moment, act))
        else:
            number, before = self.draw.randint(1, 6), self.chance(50)
            self.log.append(f"  {act.__name__} {'before' if before else 'after'} commit {number}")
            run = self.driver(lake=self._watched(number, act, before=before))
        self.did("disturbed")
        with suppress(KilledError, FencedError):
            if self.chance(30) and self._view() is not None:
                self._disturbed_rebuild(run)
                return
            for _ in range(self.draw.randint(1, 3)):
                run.batch()

    def _disturbed_rebuild(self, run: TableRun) -> None:
        """It may say that others changed the rows meanwhile, or that a snapshot expired that it was to begin at."""
        target = self.draw.choice([None, ToEarliest(), self._earlier()])
        self.log.append(f"  during a rebuild, {target}")
        with suppress(RebuildError, Misuse):
            self._rebuild(run, target)

    def rebuild(self) -> None:
        """Read the topic again from its beginning, or complete what an earlier process has begun."""
        if self._view() is not None:
            self._rebuild(self.driver(), None)
            self.did("rebuild")

    def rewind(self) -> None:
        """Read the last records again, unless there are none, or no snapshot from before them is left."""
        if self._view() is None:
            return
        target = self.draw.choice([ToEarliest(), self._earlier()])
        self.log.append(f"  {target}")
        try:
            self._rebuild(self.driver(), target)
        except (RebuildError, Misuse) as refused:
            assert re.search("no snapshot from before that|nothing to read again", refused.what), refused.what
        else:
            self.did("rewind")

    def _earlier(self) -> ToOffsets:
        """Return offsets that the table has read, and perhaps not read then."""
        self.settle()
        return ToOffsets({"orders": {number: self.draw.randint(0, end) for number, end in self.next.items()}})

    def _rebuild(self, run: TableRun, target: Target | None) -> None:
        lake, spec = cast(IcebergLake, run.clients.lake), self.spec
        assert lake.catalog  # what is done at a commit of the lake is done at one of the rebuild
        built = RebuildLake(lake, (spec.identifier, spec.dead_letters_identifier))
        act = Rebuild(spec, run.clients, built, run.writer, lambda s: None, lambda: 0.0, lambda progress: None)
        replace(act, drop_foreign=True, target=target).perform()

    def _watched(self, number: int, act: Act, *, before: bool) -> WatchedLake:
        return WatchedLake(self.world.lake._settings, around=at_commit(number, act, before=before))

    def killed(self) -> None:
        raise KilledError

    def other_driver(self) -> None:
        self.did("other_driver")
        for _ in range(self.draw.randint(1, 3)):
            self.driver().batch()

    def rewrite(self) -> None:
        """Another driver rewrites files."""
        if (view := self._view()) is not None:
            Rewriting(self.spec, uuid.uuid4().hex[:8]).between_batches(self.driver().clients, view)
            self.did("rewrite")

    def wait(self) -> None:
        """Let time pass, up to the bound of the memory of deletes and beyond it."""
        self.catch_up()
        self.settle()
        keep = self.spec.delete_memory
        self.now += self.draw.choice(
            (keep / 2, keep - timedelta(seconds=1), keep, keep + timedelta(microseconds=1), -timedelta(hours=1))
        )
        self.has_other_rows = True
        self.did("wait")

    # --- other engines

    def compact(self) -> None:
        loaded = self._loaded()
        rows = None if loaded is None else loaded.scan().to_arrow()
        if loaded is None or not rows:
            return
        order = self.draw.sample(range(len(rows)), len(rows))
        with loaded.transaction() as transaction:
            files = list(_dataframe_to_data_files(loaded.metadata, rows.take(pa.array(order)), loaded.io))
            with transaction.update_snapshot().overwrite() as replacing:
                for task in loaded.scan().plan_files():
                    replacing.delete_data_file(task.file)
                for file in files:
                    replacing.append_data_file(file)
        self.did("compact")

    def delete_row(self) -> None:
        self.settle()
        loaded = self._loaded()
        which = None if loaded is None else self.forget()
        if loaded is not None and which is not None:
            loaded.delete(which)
            self.did("delete_row")
            self.log.append(f"  {which}")
            self.has_other_rows = True
            self.settle()

    def insert(self) -> None:
        self.settle()
        loaded, row = self._loaded(), self.row_of_others()
        if loaded is not None and row.keys() <= {*loaded.schema().column_names}:
            fields = [loaded.schema().as_arrow().field(name) for name in row]
            loaded.append(pa.Table.from_pylist([row], schema=pa.schema(fields)))
            self.inserted += 1
            self.did("insert")
            self.settle()

    def expire(self) -> None:
        self.settle()
        view, loaded = self._view(), self._loaded()
        newest = [] if view is None else [each.id for each in view.ancestry(view.head)][:2]
        if view is not None and loaded is not None and view.tags[CHECKPOINT_TAG] in newest:  # else its state is cut off
            loaded.maintenance.expire_snapshots().older_than(datetime.now() + timedelta(1)).commit()
            self.did("expire")

    def roll_back(self) -> None:
        """Point `main` to one of its last snapshots."""
        self.settle()
        view, loaded = self._view(), self._loaded()
        stood = self.snapshots.stood
        places = [each.id for each in (() if view is None else view.ancestry(view.head)) if each.id in stood]
        known = [head for head in places if stood[head].generation == self.generation]
        if loaded is not None and known:
            head = self.draw.choice(known[:4])
            loaded.manage_snapshots().set_current_snapshot(head).commit()
            self.stand_at(stood[head])
            self.did("roll_back")


def once(moment: tuple[str, str], act: Act) -> Callable[[str, str], None]:
    left = [act]

    def observe(when: str, step: str) -> None:
        if left and (when, step) == moment:
            left.pop()()

    return observe
