"""A control plane in one process: world, bus, API server, services, and the observer that is told of everything."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.simulation.epochs import Lease, Loss
from tests.simulation.errors import is_odd
from tests.simulation.faults import Fault
from tests.simulation.rights import rights_of_users
from tests.simulation.services import BESIDE, SPECS

from berth.bus import Bus
from berth.bus import headers as h
from berth.bus.settings import BusSettings
from berth.contracts import buckets, subjects
from berth.invariants import Observer
from berth.kube.answer import Answer
from berth.simcluster.controllers import ControllerSettings
from berth.simcluster.http.target import Target
from berth.simcluster.kubelet import KubeletSettings
from berth.simcluster.store import Event, Path, Reply
from berth.simcluster.store.collection import DELETED
from berth.telemetry.logs import Level
from berth.testing.simulation.journal import Journal
from berth.testing.simulation.kube_faults import Fate, KubeFaults
from berth.testing.simulation.kube_server import SimKube
from berth.testing.simulation.nats import Faults, SimNats
from berth.testing.simulation.nats import WorldScheduler as NatsScheduler
from berth.testing.simulation.nats.message import Publish
from berth.testing.simulation.nats.rights import Rights
from berth.testing.simulation.nats.stream import Stream
from berth.testing.simulation.process import Process
from berth.testing.simulation.scheduling import WorldScheduler
from berth.testing.simulation.services import Host, ServiceSpec
from berth.testing.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.node_agent import Machine
    from tests.simulation.recording import Recording
    from tests.simulation.webhooks import Webhooks
    from tests.simulation.yarn_cluster import SimYarn

GARBAGE: Final = b'{"node": 7'
"""What nobody can read."""
LEDGER: Final = f"KV_{buckets.LEDGER}"
QUOTA: Final = f"KV_{buckets.QUOTA}"
STATE: Final = f"KV_{buckets.STATE}"
SLO: Final = f"KV_{buckets.SLO}"
METRICS: Final = f"KV_{buckets.METRICS}"
RESTART_S: Final = (0.5, 4.0)
SKEW_S: Final = 2.0
QUIET: Final = KubeFaults(delay_s=(0.0005, 0.005))
CONTROLLERS: Final = ControllerSettings(provision_failures=0.15)
"""Of claims, volumes, ReplicaSets and budgets; now and then a volume cannot be made at once."""
HOME: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "berth-system"}}


def no_faults(rng: random.Random) -> Faults:
    """A bus on a good day: a fraction of a millisecond each way."""
    draw = rng.random  # every message takes one of these
    return Faults(up_s=lambda _: 0.0001 + 0.0004 * draw(), down_s=lambda _: 0.0001 + 0.0009 * draw())


class Nats(SimNats):
    """The bus, with the observer at the store."""

    observer: Observer
    world: World

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.losses: list[Loss] = []
        self.begun: dict[int, float] = {}
        """When LEDGER first held each epoch."""
        self.on_commands: list[Callable[[Any], None]] = []
        """Who hears of each command that is stored."""
        self.on_prices: list[Callable[[Any], None]] = []
        """Who hears of each table of prices that is stored."""
        self.on_events: list[Callable[[Any], None]] = []
        """Who hears of each event that is stored."""
        self._plans: set[str] = set()

    def add_stream(self, stream: Stream) -> None:
        """See `SimNats.add_stream`; what LEDGER, STATE, QUOTA and SLO store is shown to the observer, of METRICS
        that there are reports."""
        super().add_stream(stream)
        if stream.name == buckets.COMMANDS:
            self._hear(stream, self.on_commands)
        if stream.name == buckets.EVENTS:
            self._hear(stream, self.on_events)
        if stream.name == f"KV_{buckets.PRICE}":
            self._hear(stream, self.on_prices)
        if stream.name not in (LEDGER, STATE, QUOTA, SLO, METRICS):
            return
        tell, prefix = stream.tell, len(f"$KV.{stream.name.removeprefix('KV_')}.")
        observer, world, is_ledger = self.observer, self.world, stream.name == LEDGER

        def shown(stored: Iterable[Any]) -> None:
            stored = list(stored)
            observer.at(world.now)
            for each in stored:
                key, deleted = each.subject[prefix:], bool(each.raw) and h.marks_deletion(each.raw)
                if each.data == GARBAGE:
                    continue  # what was lost by it is shown instead
                if is_ledger:
                    world.note(b"%b=%b" % (key.encode(), each.data))
                    observer.ledger(key, each.data, deleted, each.sequence)
                    self._count_plan(key, deleted)
                    self.begun.setdefault(observer.view.epoch.epoch, world.now)
                elif stream.name == QUOTA:
                    observer.quota(key, each.data, deleted)
                elif stream.name == SLO:
                    observer.slo(key, each.data, deleted)
                elif stream.name == METRICS:
                    kind, name = subjects.parts(key)
                    if kind == "node" and not deleted:
                        observer.news.reported(name)
                else:
                    observer.state(key, each.data, deleted)
            tell(stored)

        stream.tell = shown  # type: ignore[method-assign]

    def _hear(self, stream: Stream, listeners: list[Callable[[Any], None]]) -> None:
        tell = stream.tell

        def heard(stored: Iterable[Any]) -> None:
            stored = list(stored)
            for each in stored:
                for listener in listeners:
                    listener(each)
            tell(stored)

        stream.tell = heard  # type: ignore[method-assign]

    def _count_plan(self, key: str, deleted: bool) -> None:
        """A plan that is there has passed the verifier of the solver that made it (I14)."""
        if ".plan." in key and not deleted and key not in self._plans:
            self._plans.add(key)
            self.observer.verdicts.judged("I14")

    @contextmanager
    def damaged(self) -> Iterator[None]:
        """What buckets lose inside a `with` block is noted; of LEDGER and STATE the observer is shown what is left."""
        before = {name: self._stored(name) for name in self.streams if name.startswith("KV_")}
        yield
        self.observer.at(self.world.now)
        for name, held in before.items():
            left = self._stored(name)
            if left == held:
                continue
            self.losses.append(Loss(self.world.now, name.removeprefix("KV_")))
            if name == LEDGER:
                self.observer.ledger_lost(left)
            elif name == STATE:
                self.observer.state_lost((key, value, deleted) for key, value, deleted, _ in left)

    def garble(self, rng: random.Random, count: int) -> None:
        """Somebody overwrites entries of the ledger's epoch with what nobody can read: what they said is lost."""
        stream, prefix = self.streams.get(LEDGER), f"$KV.{buckets.LEDGER}.e{self.observer.view.epoch.epoch}."
        if stream is None or not self.running:
            return
        told = (f"{prefix}decision.", f"{prefix}plan.", f"{prefix}account.{subjects.QUOTA_ACCOUNTS}")
        there = [each.subject for each in stream.messages.values() if each.subject.startswith(told)]
        with self.damaged():
            for subject in rng.sample(there, min(count, len(there))):
                stream.tell((stream.store(Publish(subject, GARBAGE), 0, ""),))

    def garbled(self) -> Iterator[str]:
        """Keys of the ledger that nobody can read."""
        stream, prefix = self.streams.get(LEDGER), len(f"$KV.{buckets.LEDGER}.")
        stored = stream.messages.values() if stream is not None else ()
        return (each.subject[prefix:] for each in stored if each.data == GARBAGE)

    def _stored(self, name: str) -> list[tuple[str, bytes, bool, int]]:
        stream, prefix = self.streams.get(name), len(f"$KV.{name.removeprefix('KV_')}.")
        stored = sorted(stream.messages.values(), key=lambda each: each.sequence) if stream is not None else []
        return [
            (each.subject[prefix:], each.data, bool(each.raw) and h.marks_deletion(each.raw), each.sequence)
            for each in stored
            if each.data != GARBAGE
        ]


class Kube(SimKube):
    """The API server; the observer hears which pods Berth itself deletes or evicts, and for whom it looks."""

    observer: Observer
    webhooks: Webhooks | None = None
    """What users' writes go past, in some runs."""

    def perform(self, verb: str, path: Path, body: bytes | None = None, **query: str) -> Reply:
        """See `SimKube.perform`."""
        if self.webhooks is not None and self.webhooks.takes(verb, path):
            return self.webhooks.begin(Target(path, query), body or b"")
        return super().perform(verb, path, body, **query)

    def serve(self, verb: str, target: Target, body: bytes, content_type: str, fate: Fate) -> Answer:
        """See `SimKube.serve`; users do not come this way."""
        self.observer.by_berth(verb in ("delete", "evict"))
        if verb == "get" and target.path.plural in ("pods", "reservations"):
            self.observer.looked(target.path.namespace, target.path.name)
        try:
            return super().serve(verb, target, body, content_type, fate)
        finally:
            self.observer.by_berth(False)


@dataclass
class Harness:
    """What a scenario acts on. Close the world when done."""

    world: World
    journal: Journal
    kube: Kube
    nats: Nats
    host: Host
    observer: Observer
    lease: Lease
    struck: list[Fault]
    """The faults that there were so far."""
    machine: Machine | None = None
    """A node with an agent, in some runs."""
    yarn: SimYarn | None = None
    """A YARN cluster, in some runs."""
    recording: Recording | None = None
    """What solvers read, kept, in some runs."""
    rights: Mapping[str, Rights] = field(default_factory=dict)
    """What each user of the bus may do."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What services are told by their environment, by name."""


def build(
    seed: int,
    manifests: Iterable[Mapping[str, Any]],
    replicas: Mapping[str, int],
    *,
    log_level: Level,
    specs: Sequence[ServiceSpec] = SPECS,
    machine: Machine | None = None,
    yarn: SimYarn | None = None,
    recording: Recording | None = None,
    controllers: ControllerSettings = CONTROLLERS,
) -> Harness:
    """Everything in place, the services started; nothing has run yet."""
    world = World(seed)
    observer = Observer(keep_log=True)
    struck: list[Fault] = []
    journal = Journal(world, log_level, counts=lambda error: is_odd(error, struck, observer.verdicts))
    kube = Kube(
        WorldScheduler(world),
        world.chance("api"),
        wall=world.wall,
        faults=QUIET,
        kubelet=KubeletSettings(heartbeat_s=0.0),
        controllers=controllers,
        history=2_000,
        bookmark_s=10.0,
    )
    kube.observer = observer
    observer.by_berth(False)
    _show_api(kube, observer, world)
    lease = Lease(kube, world)
    kube.load([dict(HOME), *map(dict, manifests)])
    nats = Nats(
        NatsScheduler(world), random=world.chance("bus"), faults=no_faults(world.chance("bus delays")), clustered=True
    )
    nats.observer, nats.world = observer, world

    rights = rights_of_users()

    async def connect(process: Process, settings: BusSettings, service: str) -> Bus:
        process.on_end(lambda ended: nats.sever(ended))
        client = nats.clients_of(process, rights[service])
        return await Bus.connect(settings, service=service, clock=process.clock, random=process.random, client=client)

    host = Host(world, journal, bus=connect, kube=kube, restart_s=RESTART_S, clock_skew_s=SKEW_S)
    harness = Harness(world, journal, kube, nats, host, observer, lease, struck, machine, yarn, rights)
    harness.settings = {spec.name: spec.environ for spec in specs}
    if machine is not None:
        machine.live(harness)
        specs = [*specs, machine.spec()]
    if yarn is not None:
        yarn.live(harness)
        specs = [*specs, yarn.spec()]
    if recording is not None:
        harness.recording = recording
        specs = [*specs, recording.spec()]
    for spec in specs:
        host.run(spec, replicas=replicas.get(spec.name, int(spec.name not in BESIDE)))
    return harness


def _show_api(kube: SimKube, observer: Observer, world: World) -> None:
    said: dict[str, str] = {}

    def seen(event: Event) -> None:
        observer.at(world.now)
        data = event.obj.data
        observer.api(event.resource.plural, data, deleted=event.kind == DELETED)
        if event.resource.plural == "nodemetrics":
            name, at = data["metadata"]["name"], (data.get("status") or {}).get("updateTime", "")
            if at and said.get(name) != at:
                said[name] = at
                observer.news.reported(name)

    kube.store.listen(seen)
