"""The simulated API server and its network: what goes wrong on the way, and what a client sees of it."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest

from berth.contracts.kube import Node, Pod
from berth.kube import (
    NODES,
    PODS,
    Answer,
    Handler,
    Kube,
    KubeSettings,
    Listing,
    Reflector,
    Selection,
    WatchSettings,
    list_all,
)
from berth.simcluster import ControllerSettings, KubeletSettings, Path
from berth.testing.simulation.kube_faults import KubeFaults
from berth.testing.simulation.kube_server import How, SimKube
from berth.testing.simulation.kube_transport import TIMED_OUT, connector
from berth.testing.simulation.process import Process
from berth.testing.simulation.scheduling import WorldScheduler
from berth.testing.simulation.world import World

Use = Callable[[Kube, Process], Awaitable[Any]]


@pytest.fixture
def world() -> Iterator[World]:
    with World(11) as made:
        yield made


@pytest.fixture
def server(world: World) -> SimKube:
    return SimKube(WorldScheduler(world), world.chance("kube"), wall=world.wall, kubelet=None)


def manifest(name: str, node: str = "", **annotations: str) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": "8"}}}


def use(world: World, server: SimKube, work: Use, *, within_s: float = 1000.0, **settings: Any) -> Any:
    """Do this in a process of its own; what it returns."""
    process = world.process("client")
    got: list[Any] = []

    async def main() -> None:
        kube = await connector(server, world, process)(KubeSettings(**settings), process.clock)
        got.append(await work(kube, process))

    process.start(main())
    world.run_until(lambda: process.finished, within_s)
    if process.failure is not None:
        raise process.failure
    assert process.unseen_failures == []
    return got[0]


def test_a_call_takes_its_time_both_ways(world: World, server: SimKube) -> None:
    server.faults = KubeFaults(delay_s=(0.1, 0.2))

    async def work(kube: Kube, process: Process) -> float:
        assert (await kube.create(PODS, "default", manifest("p"))).status == 201
        return process.clock.monotonic()

    assert 0.2 <= use(world, server, work) <= 0.4
    assert server.requests["create", "pods", 201] == 1


@pytest.mark.parametrize(
    ("fault", "statuses", "has_effect"),
    [
        (KubeFaults(throttled=1.0, retry_after_s=(7, 7)), {429}, False),
        (KubeFaults(failed=1.0), {500, 503, 504}, False),
        (KubeFaults(failed_after=1.0), {500, 504}, True),
        (KubeFaults(turned_away=1.0), {400, 401, 403, 404, 408}, False),
        (KubeFaults(lost=1.0), {0}, False),
        (KubeFaults(lost_after=1.0), {0}, True),
        (KubeFaults(slow=1.0, slow_s=(40.0, 50.0)), {0}, True),
        (KubeFaults(slow=1.0, slow_s=(5.0, 9.0)), {201}, True),
        (KubeFaults(throttled=1.0, verbs=("list",)), {201}, True),
        (KubeFaults(throttled=1.0, resources=("nodes",)), {201}, True),
    ],
)
def test_what_befalls_a_request(
    world: World, server: SimKube, fault: KubeFaults, statuses: set[int], has_effect: bool
) -> None:
    server.faults = fault

    async def work(kube: Kube, process: Process) -> Answer:
        return await kube.create(PODS, "default", manifest("p"))

    answer = use(world, server, work)
    assert answer.status in statuses
    if answer.status == 429:
        assert answer.retry_after_s == 7
    world.run(world.now + 60)
    assert (server.store.state.collections["", "pods"].items.keys() == {"default/p"}) is has_effect


def test_nobody_binds_onto_a_node_that_is_barred(world: World, server: SimKube) -> None:
    server.load([manifest("p"), node("a"), node("b")])
    server.barred.add("a")

    async def work(kube: Kube, process: Process) -> tuple[Answer, Answer]:
        async def bind(name: str) -> Answer:
            return await kube.bind("default", "p", uid="", version="", node=name, annotations={})

        return await bind("a"), await bind("b")

    barred, bound = use(world, server, work)
    assert (barred.status, barred.reason, barred.repeat) == (422, "Invalid", False)
    assert "denied request" in barred.message
    assert bound.ok


def test_another_writer_makes_a_guarded_write_fail_and_no_other(world: World, server: SimKube) -> None:
    server.load([manifest("p")])
    server.faults = KubeFaults(conflicts=1.0)

    async def work(kube: Kube, process: Process) -> tuple[Answer, Answer]:
        pod = msgspec.json.decode((await kube.get(PODS, "default", "p")).body, type=Pod)
        labels = {"labels": {"a": "b"}}
        guarded = {"metadata": {**labels, "resourceVersion": pod.metadata.resource_version}}
        return (
            await kube.patch(PODS, "default", "p", guarded),
            await kube.patch(PODS, "default", "p", {"metadata": labels}),
        )

    kept, changed = use(world, server, work)
    assert kept.conflict
    assert changed.ok


def test_page_tokens_expire(world: World, server: SimKube) -> None:
    server.load([node(f"n{number}") for number in range(5)])
    server.faults = KubeFaults(tokens_expired=1.0)

    async def work(kube: Kube, process: Process) -> Listing[Node] | Answer:
        return await list_all(kube, Selection(NODES), Node, limit=2)

    answer = use(world, server, work)
    assert isinstance(answer, Answer)
    assert answer.expired


@pytest.mark.parametrize("anyway", [False, True])
def test_a_stale_list_shows_an_older_moment_and_only_where_a_server_may(
    world: World, server: SimKube, anyway: bool
) -> None:
    server.load([node("old")])
    world.run(10)
    server.load([node("new")])
    server.faults = KubeFaults(stale_lists=1.0, stale_s=(5.0, 5.0), stale_anyway=anyway)

    async def work(kube: Kube, process: Process) -> list[str]:
        listing = await kube.list(NODES, Node)
        assert isinstance(listing, Listing)
        return [item.metadata.name for item in listing.items]

    assert use(world, server, work) == (["old"] if anyway else ["new", "old"])


class View(Handler[Pod]):
    """The names that are there."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.lists = 0

    def began(self) -> None:
        self.names.clear()
        self.lists += 1

    def seen(self, raw: bytes, item: Pod, version: int) -> None:
        self.names.add(item.metadata.name)

    def changed(self, kind: str, item: Pod) -> None:
        self.names.add(item.metadata.name)

    def deleted(self, item: Any, version: int) -> None:
        self.names.discard(item.metadata.name)


ROUGH = KubeFaults(
    throttled=0.1,
    failed=0.1,
    lost=0.1,
    slow=0.05,
    tokens_expired=0.3,
    stale_lists=0.3,
    stale_anyway=True,
    watches_gone=0.2,
    watches_cut=0.4,
    watches_ended=0.2,
    watches_silent=0.1,
    watches_late=0.3,
    watch_life_s=(0.0, 30.0),
)


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_to_watches_a_follower_ends_up_with_the_truth(seed: int) -> None:
    with World(seed) as world:
        server = SimKube(WorldScheduler(world), world.chance("kube"), wall=world.wall, faults=ROUGH)
        view = View()
        process = world.process("client")

        async def main() -> None:
            kube = await connector(server, world, process)(KubeSettings(), process.clock)
            settings = WatchSettings(limit=3, idle_s=20.0, stream_s=(30, 60))
            rng = process.random
            await Reflector(kube, Selection(PODS), Pod, view, clock=process.clock, rng=rng, settings=settings).run()

        process.start(main())
        rng = world.chance("work")

        def change() -> None:
            name = f"p{rng.randrange(20)}"
            if rng.random() < 0.5:
                body = msgspec.json.encode(manifest(name))
                server.perform("create", Path("", "v1", "pods", "default"), body)
            else:
                server.perform("delete", Path("", "v1", "pods", "default", name), b"{}", gracePeriodSeconds="0")
            if world.now < 598:
                world.later(rng.uniform(0, 2), None, change)

        world.later(5, None, change)
        world.later(200, None, server.go_away, 20.0)
        world.later(300, None, server.go_away, 20.0, "silent")
        world.later(400, None, server.go_away, 20.0, "answers", "client")
        world.run(600)
        server.faults = KubeFaults()
        truth = {key.rpartition("/")[2] for key in server.store.state.collections["", "pods"].items}
        assert world.run_until(lambda: view.names == truth, 300)
        assert process.unseen_failures == []
        assert view.lists > 1


def test_a_client_that_dies_leaves_no_watch_behind(world: World, server: SimKube) -> None:
    process = world.process("client")

    async def main() -> None:
        kube = await connector(server, world, process)(KubeSettings(), process.clock)
        async for _ in kube.watch(Selection(PODS), version=server.store.version, stream_s=300, idle_s=100):
            pass

    process.start(main())
    world.run(5)
    assert len(server.hub) == 1
    process.kill()
    world.run(6)
    assert len(server.hub) == 0


@pytest.mark.parametrize("how", ["silent", "answers"])
def test_a_watch_that_never_begins_ends_like_a_request(world: World, server: SimKube, how: How) -> None:
    async def watch(kube: Kube, process: Process) -> tuple[Any, float]:
        selection = Selection(PODS)
        lines = [each async for each in kube.watch(selection, version=1, stream_s=300, idle_s=150.0)]
        return lines[-1], process.clock.monotonic()

    began_s = world.now
    server.go_away(100.0, how)
    end, ended_s = use(world, server, watch, timeout_s=30.0)
    assert (end, round(ended_s - began_s)) == (TIMED_OUT, 30)


def test_what_was_sent_has_its_effect_though_its_sender_is_dead(world: World, server: SimKube) -> None:
    process = world.process("client")

    async def main() -> None:
        kube = await connector(server, world, process)(KubeSettings(), process.clock)
        await kube.create(PODS, "default", manifest("p"))

    process.start(main())
    process.kill_after(1)
    world.run(5)
    assert not process.finished
    assert list(server.store.state.collections["", "pods"].items) == ["default/p"]


def test_no_server_no_answer(world: World, server: SimKube) -> None:
    server.go_away(3600.0)

    async def refused(kube: Kube, process: Process) -> tuple[Answer, float]:
        return await kube.get(PODS, "default", "p"), process.clock.monotonic()

    answer, took_s = use(world, server, refused)
    assert (answer.status, took_s < 1) == (0, True)
    server.go_away(3600.0, "silent")
    answer, ended_s = use(world, server, refused, timeout_s=30.0)
    assert (answer.status, round(ended_s - took_s)) == (0, 30)
    server.come_back()
    assert use(world, server, refused)[0].missing


def test_kubelets_start_pods_and_end_them(world: World) -> None:
    server = SimKube(WorldScheduler(world), random.Random(1), wall=world.wall, kubelet=KubeletSettings())
    server.load([node("n"), manifest("p", "n", **{"sim.berth.sh/duration": "60s"})])

    def phase() -> str:
        return str(server.store.state.collections["", "pods"].items["default/p"].data["status"]["phase"])

    world.run(0.5)
    assert phase() == "Pending"
    world.run(2)
    assert phase() == "Running"
    world.run(59)
    assert phase() == "Running"
    world.run(62)
    assert phase() == "Succeeded"


def test_controllers_replace_pods_and_one_seed_is_one_run() -> None:
    def run(seed: int) -> list[tuple[str, int]]:
        with World(seed) as world:
            server = SimKube(
                WorldScheduler(world),
                world.chance("kube"),
                wall=world.wall,
                kubelet=KubeletSettings(),
                controllers=ControllerSettings(),
            )
            template = {"spec": {"containers": [{"name": "m", "image": "i"}]}}
            sets = Path("apps", "v1", "replicasets", "default")
            body = {"metadata": {"name": "web"}, "spec": {"replicas": 3, "template": template}}
            assert server.perform("create", sets, msgspec.json.encode(body)).status == 201
            world.run(5)
            pods = server.store.state.collections["", "pods"].items
            assert len(pods) == 3
            gone = min(pods).partition("/")[2]
            assert server.perform("delete", Path("", "v1", "pods", "default", gone)).status == 200
            world.run(10)
            assert (len(pods), f"default/{gone}" in pods) == (3, False)
            return [(key, pod.version) for key, pod in pods.items()]

    assert run(5) == run(5)
    assert run(5) != run(6)
