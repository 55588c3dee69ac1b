"""A recorded run in which pods are bound, run for a while and end, as in a cluster."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from tests.services.worlds.solver.recorded import STREAMS, RecordedRun

from berth.contracts import buckets, subjects
from berth.placement_solver.what_if.changing import as_bound
from berth.recording.frames import MARK, framed
from berth.transaction.book import FINISHED_PHASES


class Site(RecordedRun):
    """Time is moved by `wait`."""

    def __init__(self, begins_s: float = 1000.0) -> None:
        super().__init__()
        self.relay.now_s = begins_s
        self.bench.clock.time = begins_s
        self.relay.taking.taken()
        self.records = list(self.relay.taking.checkpoint("first", begins_s, STREAMS))

    @property
    def now_s(self) -> float:
        """Unix time."""
        return self.relay.now_s

    async def wait(self, seconds: float) -> None:
        """So much time passes; what waits is decided first, and bound."""
        for _ in range(20):
            for each in (buckets.STATE, buckets.LEDGER):
                self.relay.end(each)
            await self.bench.until_idle()
            if not self._carry_out():
                break
        self.relay.now_s += seconds
        self.bench.clock.time = self.relay.now_s

    def _carry_out(self) -> bool:
        """Whom a decision gives a node is bound; who has to leave has left."""
        book, did = self.cluster.book, False
        for name, held in list(book.ledger.decisions.items()):
            pod = book.pods.get(name)
            if held.decision.nominates or pod is None or pod.node or pod.uid != held.decision.uid:
                continue
            self.version += 1
            self.state(subjects.pod_key(*name), replace(as_bound(pod, held.decision), version=self.version))
            did = True
        for nomination in list(book.nominations):
            for victim in book.remaining_victims(nomination):
                self.delete_pod(victim.name)
                did = True
        return did

    def ends(self, name: str) -> None:
        """A pod has ended."""
        pod = self.cluster.book.pods[("default", name)]
        if pod.phase not in FINISHED_PHASES:
            self.version += 1
            self.state(subjects.pod_key("default", name), replace(pod, phase="Succeeded", version=self.version))

    def put(self, folder: Path) -> Path:
        """Write what was recorded."""
        (folder / "berth-0000000001.rec").write_bytes(MARK + b"".join(framed(self.recorded())))
        return folder
