"""A solver's rounds without a bus, of which everything that it reads is taken down; and arrivals to make it busy."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

from tests.services.worlds.solver.bench import SolverBench

from berth.bus.port import Entry
from berth.cli.recorded.auditing import Audit, Verdict
from berth.contracts import buckets, names
from berth.contracts.round import Ground
from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.core.verify import Verifier
from berth.placement_solver.origins import Origins
from berth.recorder.core.taking import Taking
from berth.recorder.shell import READ
from berth.recorder.views import entered_of
from berth.recording.records import AnyRecord
from berth.testing.builders import PodBuilder, gpu_slots, pod
from berth.testing.feed import Feed

STREAM: Final = "made"
STREAMS: Final = dict.fromkeys(READ, STREAM)


class Relay:
    """Hands what is written to the solver and to whoever takes it down. `deaf` does not hear of the keys that it
    holds: they are replaced before they are read."""

    def __init__(self, cluster: ClusterView) -> None:
        self.cluster = cluster
        self.taking = Taking(READ)
        self.now_s = 1.0
        self._sequences = dict.fromkeys(READ, 0)
        self._gaps: dict[tuple[int, str], bool] = {}
        self.solver_is_deaf = self.recorder_is_deaf = False

    def read_state(self, key: str, value: bytes, *, deleted: bool, gap: bool, trace: str | None) -> None:
        self._read(buckets.STATE, key, value, deleted)

    def read_inventory(self, key: str, value: bytes, deleted: bool) -> None:
        self._read(buckets.INVENTORY, key, value, deleted)

    def read_quota(self, key: str, value: bytes, deleted: bool) -> None:
        self._read(buckets.QUOTA, key, value, deleted)

    def read_reserved(self, key: str, value: bytes, deleted: bool) -> None:
        self._read(buckets.RESERVATION, key, value, deleted)

    def read_ledger(self, key: str, value: bytes, deleted: bool, sequence: int) -> None:
        self._read(buckets.LEDGER, key, value, deleted)

    def end_of_state(self) -> None:
        self.end(buckets.STATE)

    def end(self, bucket: str) -> None:
        """Both reach the end of a bucket."""
        if not self.solver_is_deaf:
            self.cluster.reading.of(bucket).end()
            if bucket == buckets.STATE:
                self.cluster.end_of_state()
        if not self.recorder_is_deaf:
            self.taking.end(bucket)

    def _read(self, bucket: str, key: str, value: bytes, deleted: bool) -> None:
        self._sequences[bucket] += 1
        self.now_s += 0.001

        def entry(reader: int) -> Entry:
            gap = self._gaps.pop((reader, bucket), False)
            return Entry(key, value, deleted, self._sequences[bucket], 0, gap, None, self.now_s)

        if self.solver_is_deaf:
            self._gaps[0, bucket] = True
        else:
            found = entry(0)
            self.cluster.read(bucket, found)
            self.cluster.reading.of(bucket).applied(found)
        if self.recorder_is_deaf:
            self._gaps[1, bucket] = True
        else:
            found = entry(1)
            self.taking.apply(entered_of(bucket, found), gap=found.gap)


class RecordedRun(Feed):
    """A solver with a recorder beside it, from the first message on."""

    def __init__(self, optimiser: Any = None) -> None:
        self.cluster = ClusterView([names.SCHEDULER_NAME], "s1")
        self.verifier = Verifier(self.cluster)
        self.relay = Relay(self.cluster)
        super().__init__(self.relay, complete=False)
        for each in READ:
            self.relay.end(each)
        self.cluster.reading.follow(lambda: STREAM)
        self.records: list[AnyRecord] = list(self.relay.taking.checkpoint("first", 0.0, STREAMS))
        self.complete()
        self.epoch(1)
        self.bench: Any = SolverBench(self, preempts=True, optimiser=optimiser, optimiser_budget_s=1.0)
        settings = Ground(id="", schedulers=[names.SCHEDULER_NAME])
        self.bench.rounds._committer._origins = Origins(self.cluster, self.bench.clock, settings)

    def recorded(self) -> list[AnyRecord]:
        """All records so far."""
        self.records += self.relay.taking.taken()
        return self.records

    def audited(self) -> list[Verdict]:
        """Every plan so far, made again."""
        return list(audited(self.recorded()))


def audited(records: list[AnyRecord]) -> Iterator[Verdict]:
    audit = Audit(lambda plan, stored_s: True)
    yield from audit.over(records)
    yield from audit.end()


class Arrivals:
    """Pods of many kinds come and go on a few nodes."""

    def __init__(self, run: RecordedRun, seed: int) -> None:
        self.run = run
        self.rng = random.Random(seed)
        self.made = 0
        self.here: list[PodBuilder] = []
        for number in range(6):
            run.node(f"plain-{number}", cpu=16_000)
        for number in range(4):
            run.node(f"gpu-{number}", cpu=32_000)
            run.devices(f"gpu-{number}", gpu_slots(8))
        run.quota("team", max={names.CPU: 60_000}, runtime={names.CPU: 60_000})

    def come(self) -> None:
        """One to six pods."""
        rng = self.rng
        self.made += 1
        name = f"p{self.made}"
        kind = rng.random()
        if kind < 0.2:
            size = rng.randint(2, 4)
            for number in range(size):
                self._come(pod(f"{name}-{number}").requests(cpu=rng.choice((500, 1000))).gang(name, size))
            return
        found = pod(name).requests(cpu=rng.choice((250, 500, 1000, 4000)))
        if kind < 0.5:
            found.share(rng.choice((20, 25, 50, 70))) if rng.random() < 0.6 else found.gpus(rng.choice((1, 2, 4)))
        elif kind < 0.6:
            found.quota("team")
        elif kind < 0.7:
            found.template(priority=9000)
        self._come(found)

    def _come(self, builder: PodBuilder) -> None:
        self.here.append(builder)
        self.run.pod(builder)

    def go(self) -> None:
        """Some, while there are many."""
        while len(self.here) > 40:
            gone = self.here.pop(self.rng.randrange(len(self.here)))
            self.run.delete_pod(gone.build(0).name)

    async def some(self, decisions: int) -> None:
        """Come and go until so many were decided."""
        run = self.run
        read, decided = 0, 0
        while decided < decisions:
            for _ in range(self.rng.randint(1, 5)):
                self.come()
                self.go()
            if self.rng.random() < 0.05:
                run.node(f"late-{self.made}", cpu=8000)
            run.relay.end(buckets.STATE)
            await run.bench.until_idle()
            run.relay.end(buckets.LEDGER)
            run.bench.clock.time += 0.5
            run.relay.now_s = run.bench.clock.time
            new, read = run.ledger.messages[read:], len(run.ledger.messages)
            decided += sum(1 for key, _, deleted, _ in new if ".decision." in key and not deleted)
