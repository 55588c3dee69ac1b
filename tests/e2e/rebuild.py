"""An empty bus: everything that Berth knew is made again from the API server's objects, and is the same as before.

The snapshot is what every service stands on: the buckets of STATE, INVENTORY, QUOTA and RESERVATION, value by value,
the bound pods with what they were given, and the decisions that are still open. The API server refuses the binds of
some pods while the bus is lost, so that there are open decisions; once it accepts them, those pods are bound as well.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from typing import Any, NamedTuple

import msgspec
from nats.aio.client import Client
from nats.errors import Error as NatsError
from tests.e2e.clusters import Simulated
from tests.e2e.objects import Json, refusal_of
from tests.e2e.waiting import until
from tests.e2e.whole import Whole

from berth.cli.judge import read_bucket
from berth.cli.load.api import Api
from berth.cli.load.creator import create_all
from berth.contracts import buckets, names
from berth.simcluster.generate import (
    ClusterShape,
    PodRequest,
    WorkloadShape,
    generate_cluster,
    generate_workload,
    pod_manifest,
)
from berth.testing.nats_server import NatsServer

REBUILT = (buckets.STATE, buckets.INVENTORY, buckets.QUOTA, buckets.RESERVATION)
HELD = "held"
HELD_PODS = 10
POLL_S = 0.5
STILL_S = 2.0
VOLATILE = frozenset({"revision", "version"})
"""`revision` of a quota is a counter of its own, and both move without a change of what the message says."""
OF_UNBOUND = {"pod.seen.v1": ("attempt", "unschedulable"), "reservation.seen.v1": ("attempt", "conditions")}
"""A loss raises the attempt of what has no node, and what it was told may name other figures afterwards."""


class OnServer(Simulated):
    """The simulated API, and a bus of the test's own."""

    def __init__(self, server: NatsServer) -> None:
        super().__init__()
        self._server = server

    def stack_settings(self) -> dict[str, Any]:
        return {"nats": {"BERTH_NATS_URL": self._server.url}}


class Snapshot(NamedTuple):
    """What is known, by key; and which pods have a decision that is open."""

    buckets: dict[str, Any]
    placements: dict[str, Any]
    open: set[str]

    def differences(self, other: Snapshot) -> list[str]:
        """In words, at most a few per part."""
        found = []
        for part in ("buckets", "placements"):
            mine, its = getattr(self, part), getattr(other, part)
            changed = [key for key in sorted(mine.keys() | its.keys()) if mine.get(key) != its.get(key)]
            found += [f"{key}: {mine.get(key)} and {its.get(key)}" for key in changed[:3]]
            found += [f"and {len(changed) - 3} more of {part}"] if len(changed) > 3 else []
        if self.open != other.open:
            found.append(f"open decisions: {sorted(self.open)[:5]} and {sorted(other.open)[:5]}")
        return found


def _plain(value: Json) -> Json:
    of_unbound = OF_UNBOUND.get(value.get("type", ""), ())
    if not of_unbound or value.get("node"):
        return {name: each for name, each in value.items() if name not in VOLATILE}
    kept = {name: each for name, each in value.items() if name not in (*VOLATILE, *of_unbound)}
    return _without_attempt(kept) | {"template": _without_attempt(value["template"])}


def _without_attempt(value: Json) -> Json:
    """Without the annotation that counts attempts."""
    notes = {name: each for name, each in value.get("annotations", {}).items() if name != names.ANNOTATION_ATTEMPT}
    return {name: each for name, each in value.items() if name != "annotations"} | (
        {"annotations": notes} if notes else {}
    )


async def read_snapshot(whole: Whole) -> Snapshot:
    """As it is now."""
    found = {
        f"{bucket} {key}": _plain(msgspec.json.decode(value))
        for bucket in REBUILT
        for key, (_, value) in (await read_bucket(whole.bus, bucket)).items()
        if not key.startswith("synced.")
    }
    pods = await whole.items("/api/v1/pods")
    placed = {pod["metadata"]["name"]: _given(pod) for pod in pods if pod["spec"].get("nodeName")}
    return Snapshot(found, placed, await _open(whole, set(placed)))


def _given(pod: Json) -> list[Any]:
    notes = pod["metadata"].get("annotations", {})
    given = [notes.get(name) for name in (names.ANNOTATION_DEVICE_ALLOCATED, names.ANNOTATION_PLAN)]
    return [pod["spec"]["nodeName"], *given]


async def _open(whole: Whole, placed: set[str]) -> set[str]:
    """Pods with a decision in the epoch that counts, and without a node."""
    ledger = await read_bucket(whole.bus, buckets.LEDGER)
    epoch = msgspec.json.decode(ledger["epoch"][1])["epoch"] if "epoch" in ledger else 0
    decided = {key.rsplit(".", 1)[1] for key in ledger if key.startswith(f"e{epoch}.decision.")}
    return {name for name in decided if name.startswith(HELD)} - placed


class Size(NamedTuple):
    nodes: int
    pods: int


class Rebuilt(NamedTuple):
    """`seconds`: from the loss until the snapshot was the old one. `entries`: how many values were compared."""

    seconds: float
    entries: int
    bound: int


async def fill(whole: Whole, size: Size, *, within_s: float) -> None:
    """A cluster with work on it: every pod bound or told why not, but for those whose binds are held."""
    rule = {"kind": "error", "status": 503, "verbs": ["bind"], "name_prefix": HELD}
    await whole.call("PUT", "/sim/faults", {"faults": [rule]})
    gangs, reservations = size.pods // 200, size.pods // 200
    singles = size.pods - 8 * gangs - reservations - HELD_PODS
    shape = WorkloadShape(pods=singles, gangs=gangs, reservations=reservations, quota_groups=4)
    held = [pod_manifest(f"{HELD}-{number}", PodRequest(10, 16)) for number in range(HELD_PODS)]
    async with Api(whole.stack.kube_url) as api:
        await create_all(api, generate_cluster(ClusterShape(nodes=size.nodes), seed=5))
        await create_all(api, [*held, *generate_workload(shape, seed=5)])
    deadline = time.monotonic() + within_s
    while True:
        pods = await whole.items("/api/v1/pods")
        left = [pod for pod in pods if not pod["spec"].get("nodeName") and not refusal_of(pod)]
        if {pod["metadata"]["name"].split("-")[0] for pod in left} == {HELD}:
            return
        assert time.monotonic() < deadline, f"{len(left)} of {len(pods)} pods are neither bound nor told"
        await asyncio.sleep(POLL_S)


async def release(whole: Whole, *, within_s: float) -> None:
    """Let the binds through that were held; returns once all of those pods have a node."""
    await whole.call("PUT", "/sim/faults", {"faults": []})

    async def look() -> bool:
        pods = [pod for pod in await whole.items("/api/v1/pods") if pod["metadata"]["name"].startswith(HELD)]
        return all(pod["spec"].get("nodeName") for pod in pods)

    await until(look, "the binds that were held", timeout_s=within_s)


async def still(whole: Whole, *, within_s: float) -> Snapshot:
    """The snapshot, once it stays the same."""
    deadline = time.monotonic() + within_s
    before = await read_snapshot(whole)
    while True:
        await asyncio.sleep(STILL_S)
        after = await read_snapshot(whole)
        differences = before.differences(after)
        if not differences and len(after.open) == HELD_PODS:
            return after
        assert time.monotonic() < deadline, f"it does not come to rest: {differences}, {len(after.open)} open"
        before = after


async def lose_everything(whole: Whole, server: NatsServer, before: Snapshot, *, within_s: float) -> Rebuilt:
    """kill -9 of the bus, an empty store; returns once everything is as before, and fails when it is not in time."""
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(shutil.rmtree, server.store)
    began = time.monotonic()
    await asyncio.to_thread(server.start)
    await _filled(server, before, within_s=within_s)
    while True:
        differences = before.differences(await read_snapshot(whole))
        took_s = time.monotonic() - began
        if not differences:
            return Rebuilt(took_s, len(before.buckets), len(before.placements))
        assert took_s < within_s, f"not the same after {took_s:.0f} s: {differences}"
        await asyncio.sleep(POLL_S)


async def _filled(server: NatsServer, before: Snapshot, *, within_s: float) -> None:
    """The buckets hold as much as before: only then a whole look, which costs the machine seconds, is worth it."""
    wanted = Counter(key.split()[0] for key in before.buckets)
    client = Client()
    await client.connect(server.url)

    async def look() -> bool:
        try:
            infos = [await client.jetstream().stream_info(f"KV_{bucket}") for bucket in REBUILT]
        except NatsError:
            return False  # not made yet
        return all(info.state.messages >= wanted[bucket] for bucket, info in zip(REBUILT, infos, strict=True))

    try:
        await until(look, "as many values as before", timeout_s=within_s)
    finally:
        await client.close()
