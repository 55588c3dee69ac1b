"""A running control plane in the hands of a test: bus, API server and every service as processes.

`run_whole` starts it. A `Corner` is a part of the cluster that one test has for itself: a namespace, and nodes that
only its pods select, so that the tests of one file share the processes and nothing else.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import aiohttp
import msgspec
from tests.e2e.clusters import Cluster, Simulated

from berth.bus import Bus, BusSettings
from berth.bus.port import Entry
from berth.cli.commands.why import ask_why
from berth.cli.stack.services import SERVICES
from berth.cli.stack.stack import Stack
from berth.contracts import buckets, names, subjects
from berth.contracts.codec import decode
from berth.contracts.ledger import Decision, Plan, PlanStatus
from berth.contracts.question import WhyAnswer
from berth.contracts.reservation import ReservedRoom
from berth.testing.views import View, eventually

Json = dict[str, Any]
T = TypeVar("T")

PODS = "/api/v1/namespaces/{}/pods"
NODES = "/api/v1/nodes"
DEVICES = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"
POD_GROUPS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/podgroups"
QUOTAS = "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/{}/elasticquotas"
CORNER = "test.berth.sh/corner"
WAIT_S = 25.0
POLL_S = 0.05
KEEP = os.environ.get("BERTH_TEST_KEEP", "") == "1"
"""Leave the logs of the processes behind."""


async def until(look: Callable[[], Awaitable[T | None]], what: str, *, timeout_s: float = WAIT_S) -> T:
    """What `look` returns once that is something. Fails, saying what was waited for, when it never does."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = await look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:g} s in vain for {what}")
        await asyncio.sleep(POLL_S)


class Whole:
    """One running control plane."""

    def __init__(self, stack: Stack, session: aiohttp.ClientSession, bus: Bus, cluster: Cluster) -> None:
        self.stack = stack
        self.bus = bus
        self.cluster = cluster
        self.session = session
        self._corners = 0

    # --- the API server ----------------------------------------------------------------------------------------------

    async def call(self, method: str, path: str, body: Any = None, *, kind: str = "application/json") -> Json:
        """The decoded answer. Fails for anything but success, and waits for a server that asks for it."""
        deadline = time.monotonic() + WAIT_S
        while True:
            status, answer = await self.try_call(method, path, body, kind=kind)
            if status != 429 or time.monotonic() > deadline:
                break
            await asyncio.sleep(POLL_S)  # a server that has just been started fills its caches
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    async def try_call(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json"
    ) -> tuple[int, Json]:
        """Status and decoded answer."""
        data = None if body is None else io.BytesIO(msgspec.json.encode(body))
        headers = {"Content-Type": kind}
        headers |= self.cluster.headers
        url = self.cluster.url + path
        async with self.session.request(method, url, data=data, headers=headers) as response:
            return response.status, msgspec.json.decode(await response.read())

    async def items(self, path: str) -> list[Json]:
        """The items of a list."""
        found: list[Json] = (await self.call("GET", path))["items"]
        return found

    async def patch(self, path: str, body: Json) -> Json:
        """A merge patch."""
        return await self.call("PATCH", path, body, kind="application/merge-patch+json")

    # --- processes ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def paused(self, name: str) -> AsyncIterator[None]:
        """A service stands still meanwhile."""
        pid = self.stack.processes[name].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    async def until_in_state(self, namespace: str, *pods: str) -> None:
        """Return once STATE shows these pods, so that whoever reads it next sees all of them."""
        keys = {subjects.pod_key(namespace, pod) for pod in pods}
        async with self._viewed(buckets.STATE, f"pod.{subjects.escape(namespace)}.>") as view:
            await eventually(lambda: keys <= set(view.values), what=f"pods {pods} in STATE")

    async def until_in_reserved(self, reservation: str) -> None:
        """Return once RESERVATION shows its room on a node: a pod that is created now can draw on it."""
        key = subjects.named_key("reservation", reservation)
        async with self._viewed(buckets.RESERVATION, key) as view:

            def is_there() -> bool:
                return key in view.values and bool(decode(view.values[key], ReservedRoom).node)

            await eventually(is_there, what=f"the room of {reservation}")

    @asynccontextmanager
    async def _viewed(self, bucket: str, keys: str) -> AsyncIterator[View]:
        view = View()
        task = asyncio.create_task(self.bus.follow(bucket, view, keys=keys).run())
        try:
            yield view
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def metrics(self, name: str) -> dict[str, float]:
        """Every sample of a service, by name with labels."""
        async with self.session.get(f"{self.stack.address(name)}/metrics") as response:
            text = await response.text()
        samples = {}
        for line in text.splitlines():
            if line and not line.startswith("#"):
                sample, _, value = line.rpartition(" ")
                samples[sample] = float(value)
        return samples

    async def counted(self, name: str, *prefixes: str) -> float:
        """The sum of the samples whose names begin with one of the prefixes."""
        found = await self.metrics(name)
        return sum(value for sample, value in found.items() if sample.startswith(prefixes))

    async def forbidden(self) -> dict[str, float]:
        """Requests to the API server that the rights of a service did not cover, by sample."""
        found: dict[str, float] = {}
        for spec in SERVICES:
            if spec.needs_kube:
                asked = partial(self.counted, spec.name, "berth_kube_requests_total{")
                await until(asked, f"{spec.name} to have asked the API server")
                samples = await self.metrics(spec.name)
                found |= {f"{spec.name} {sample}": n for sample, n in samples.items() if 'code="403"' in sample}
        return found

    async def why(self, namespace: str, name: str) -> WhyAnswer:
        """What the solver says of a pod."""
        answer = await ask_why(self.bus, namespace, name)
        assert answer is not None, "no solver answers"
        return answer

    # --- corners -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def corner(self) -> AsyncIterator[Corner]:
        """A namespace and nodes of a test's own; its nodes, pods and quotas go away with it."""
        self._corners += 1
        corner = Corner(self, f"c{self._corners}")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": corner.namespace}}
        await self.call("POST", "/api/v1/namespaces", namespace)
        try:
            yield corner
        finally:
            await corner.clear()


class Corner:
    """Objects of one test. Nodes and pods are named by the test; a node's real name carries the corner's as well."""

    def __init__(self, whole: Whole, name: str) -> None:
        self.whole = whole
        self.namespace = name
        self._nodes: list[str] = []
        self._others: list[str] = []

    # --- nodes -------------------------------------------------------------------------------------------------------

    async def node(
        self,
        name: str,
        *,
        cpu: str = "8",
        memory: str = "32Gi",
        pods: str = "110",
        gpus: int = 0,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Json] = (),
        unschedulable: bool = False,
    ) -> str:
        """Create a node and, with GPUs of 16 GiB, its Device; the node's real name."""
        full = f"{self.namespace}-{name}"
        amounts = {"cpu": cpu, "memory": memory, "pods": pods}
        node: Json = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": full, "labels": {CORNER: self.namespace, **(labels or {})}},
            "spec": {
                **({"taints": list(taints)} if taints else {}),
                **({"unschedulable": True} if unschedulable else {}),
            },
            "status": {"allocatable": amounts, "capacity": amounts},
        }
        if gpus:
            await self.device(name, [gpu(minor, f"GPU-{full}-{minor}") for minor in range(gpus)])
        await self.whole.call("POST", NODES, node)
        self._nodes.append(full)
        return full

    async def device(self, node: str, devices: Sequence[Json]) -> str:
        """Create the Device of a node; its real name."""
        full = f"{self.namespace}-{node}"
        manifest = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Device",
            "metadata": {"name": full, "labels": {names.LABEL_GPU_VENDOR: "nvidia"}},
            "spec": {"devices": list(devices)},
        }
        await self.whole.call("POST", DEVICES, manifest)
        self._others.append(f"{DEVICES}/{full}")
        return full

    async def until_counted(self, node: str, gpus: int) -> None:
        """Return once the node's status shows its GPUs."""

        async def look() -> bool:
            allocatable = (await self.whole.call("GET", f"{NODES}/{node}"))["status"]["allocatable"]
            return allocatable.get(names.GPU_CORE) == str(100 * gpus)

        await until(look, f"{gpus} GPUs in the status of {node}")

    async def drop_node(self, full: str) -> None:
        """Delete a node."""
        await self.whole.call("DELETE", f"{NODES}/{full}")
        self._nodes.remove(full)

    # --- pods --------------------------------------------------------------------------------------------------------

    def manifest(
        self,
        name: str,
        requests: Mapping[str, str] | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        scheduler: str = names.SCHEDULER_NAME,
        ports: Sequence[Json] = (),
        **spec: Any,
    ) -> Json:
        """A pod for this corner's nodes; by default half a core and 256 MiB."""
        amounts = {"cpu": "500m", "memory": "256Mi", **(requests or {})}
        container: Json = {"name": "main", "image": "workload", "resources": {"requests": amounts, "limits": amounts}}
        if ports:
            container["ports"] = list(ports)
        selector = {CORNER: self.namespace, **spec.pop("nodeSelector", {})}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": dict(labels or {}),
                "annotations": dict(annotations or {}),
            },
            "spec": {"schedulerName": scheduler, "nodeSelector": selector, "containers": [container], **spec},
        }

    async def pod(self, name: str, requests: Mapping[str, str] | None = None, **more: Any) -> str:
        """Create a pod; its name."""
        await self.whole.call("POST", PODS.format(self.namespace), self.manifest(name, requests, **more))
        return name

    async def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        path = f"{PODS.format(self.namespace)}/{name}"
        await self.whole.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})

    async def see(self, name: str) -> Json:
        """The pod as it is."""
        return await self.whole.call("GET", f"{PODS.format(self.namespace)}/{name}")

    async def bound(self, *pods: str, timeout_s: float = WAIT_S) -> list[Json]:
        """The pods, once all of them have a node."""
        found: dict[str, Json] = {}

        async def look() -> bool:
            for pod in await self.whole.items(PODS.format(self.namespace)):
                if pod["spec"].get("nodeName"):
                    found[pod["metadata"]["name"]] = pod
            return set(pods) <= set(found)

        try:
            await until(look, f"nodes for {pods}", timeout_s=timeout_s)
        except AssertionError as error:
            said = {name: (await self.whole.why(self.namespace, name)).message for name in set(pods) - set(found)}
            raise AssertionError(f"{error}; the solver says {said}") from None
        return [found[name] for name in pods]

    async def refused(self, name: str, *texts: str, timeout_s: float = WAIT_S) -> str:
        """The message of the pod's condition, once it holds all of the texts."""
        said = ""

        async def look() -> bool:
            nonlocal said
            pod = await self.see(name)
            assert not pod["spec"].get("nodeName"), f"{name} was placed on {pod['spec']['nodeName']}"
            said = refusal_of(pod)
            return bool(said) and all(text in said for text in texts)

        try:
            await until(look, f"{name} to be told {texts}", timeout_s=timeout_s)
        except AssertionError as error:
            why = await self.whole.why(self.namespace, name)
            raise AssertionError(f"{error}; it was told {said!r}, the solver says {why.message!r}") from None
        return said

    async def placed_now(self, name: str = "canary", requests: Mapping[str, str] | None = None) -> None:
        """A pod with nothing wrong with it is placed; it is gone afterwards."""
        await self.pod(name, requests or {"cpu": "10m", "memory": "1Mi"})
        await self.bound(name)
        await self.delete_pod(name)

    # --- others ------------------------------------------------------------------------------------------------------

    async def pod_group(self, name: str, members: int, annotations: Mapping[str, str] | None = None) -> None:
        """Create a PodGroup."""
        manifest = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": self.namespace, "annotations": dict(annotations or {})},
            "spec": {"minMember": members},
        }
        await self.create(POD_GROUPS.format(self.namespace), manifest)

    async def quota(
        self,
        name: str,
        least: Mapping[str, str],
        most: Mapping[str, str],
        *,
        parent: str = "",
        is_parent: bool = False,
    ) -> str:
        """Create an ElasticQuota; its name, which carries the corner's."""
        full = f"{self.namespace}-{name}"
        labels = {names.LABEL_QUOTA_IS_PARENT: json.dumps(is_parent)}
        if parent:
            labels[names.LABEL_QUOTA_PARENT] = parent
        manifest = {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": full, "namespace": self.namespace, "labels": labels},
            "spec": {"min": dict(least), "max": dict(most)},
        }
        await self.create(QUOTAS.format(self.namespace), manifest)
        return full

    async def reservation(self, name: str, requests: Mapping[str, str], **spec: Any) -> str:
        """Create a Reservation for pods labelled `owner: <name>`; its real name."""
        full = f"{self.namespace}-{name}"
        template = self.manifest("template", requests)
        manifest = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": full},
            "spec": {
                "template": {"metadata": {"namespace": self.namespace}, "spec": template["spec"]},
                "owners": [{"labelSelector": {"matchLabels": {"owner": name}}}],
                **spec,
            },
        }
        await self.create(RESERVATIONS, manifest)
        return full

    async def phase(self, reservation: str, phase: str) -> Json:
        """The Reservation, once it is in this phase."""

        async def look() -> Json | None:
            found = await self.whole.call("GET", f"{RESERVATIONS}/{reservation}")
            return found if found.get("status", {}).get("phase") == phase else None

        found = await until(look, f"{reservation} to be {phase}")
        if phase == "Available":
            await self.whole.until_in_reserved(reservation)
        return found

    async def create(self, path: str, manifest: Json) -> None:
        """Create an object; it is deleted with the corner."""
        await self.whole.call("POST", path, manifest)
        self._others.append(f"{path}/{manifest['metadata']['name']}")

    async def clear(self) -> None:
        """Delete everything."""
        now = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        for pod in await self.whole.items(PODS.format(self.namespace)):  # some may be going away already
            await self.whole.try_call("DELETE", f"{PODS.format(self.namespace)}/{pod['metadata']['name']}", now)
        for path in reversed(self._others):
            await self.whole.try_call("DELETE", path)
        for node in list(self._nodes):
            await self.drop_node(node)


class LedgerLog:
    """A follower's sink that remembers everything the ledger ever said, past epochs included."""

    def __init__(self) -> None:
        self.decisions: dict[tuple[str, int], list[Decision]] = {}
        self.plans: dict[str, Plan] = {}
        self.epochs: set[str] = set()
        self.story: dict[str, list[str]] = {}
        """What was said of each plan: sequence, epoch, status."""
        self.resets = 0

    def reset(self) -> None:
        """The bucket is another one."""
        self.resets += 1

    def apply(self, entry: Entry) -> None:
        """One message."""
        epoch, _, rest = entry.key.partition(".")
        if entry.deleted or not rest:
            return
        self.epochs.add(epoch)
        if rest.startswith("decision."):
            decision = decode(entry.value, Decision)
            self.decisions.setdefault((decision.uid, decision.attempt), []).append(decision)
        elif rest.startswith("plan."):
            plan = decode(entry.value, Plan)
            self.plans[plan.id] = plan
            self.story.setdefault(plan.id, []).append(f"{entry.sequence} {epoch} {plan.status.value}")

    def end(self, sequence: int) -> None:
        """The end of the bucket."""

    def committed(self) -> dict[tuple[str, int], list[Decision]]:
        """Decisions of plans that count, by uid and attempt."""
        return {
            key: [d for d in found if (plan := self.plans.get(d.plan)) and plan.status is PlanStatus.COMMITTED]
            for key, found in self.decisions.items()
        }

    def solvers(self) -> set[str]:
        """Who committed a plan."""
        return {plan.solver for plan in self.plans.values() if plan.status is PlanStatus.COMMITTED}


@asynccontextmanager
async def following(bus: Bus, sink: LedgerLog) -> AsyncIterator[LedgerLog]:
    """The sink, read up to now and following on."""
    follower = bus.follow(buckets.LEDGER, sink)
    task = asyncio.create_task(follower.run())
    try:
        await asyncio.wait_for(follower.ready.wait(), 10)
        yield sink
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def run_whole(
    cluster: Cluster | None = None,
    *,
    replicas: Mapping[str, int] | None = None,
    environment: Mapping[str, str] | None = None,
    sim_arguments: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> AsyncIterator[Whole]:
    """Everything started and ready; stopped on the way out. Without a cluster on the simulated API."""
    server = cluster or Simulated()
    settings = {"BERTH_TELL_AFTER_S": "0.5", **(environment or {})}
    sim = ["--sim", "--start-delay-seconds", "0.1", "--stop-delay-seconds", "0.1", *sim_arguments]
    timeout = aiohttp.ClientTimeout(total=30)
    known = server.stack_settings()
    async with Stack(replicas=replicas, environment=settings, sim_arguments=sim, say=say, keep=KEEP, **known) as stack:
        server.adopt(stack)
        bus = await Bus.connect(BusSettings(url=stack.nats_url), service="test")
        connector = aiohttp.TCPConnector(limit=48, ssl=server.tls)
        try:
            async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
                yield Whole(stack, session, bus, server)
        finally:
            await bus.close()


def gpu(minor: int, uuid: str, **more: Any) -> Json:
    """An entry of a Device: a healthy GPU of 16 GiB."""
    resources = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100", names.GPU_MEMORY: "16Gi"}
    return {"type": "gpu", "id": uuid, "minor": minor, "health": True, "resources": resources, **more}


def refusal_of(pod: Json) -> str:
    """The message of PodScheduled=False, if it is one of a refusal."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", "")) if condition.get("reason") == "Unschedulable" else ""
    return ""


def note(pod: Json, annotation: str) -> str:
    """An annotation of a pod; empty without it."""
    return str(pod["metadata"].get("annotations", {}).get(annotation, ""))


def devices_of(pod: Json) -> list[Json]:
    """The GPUs that a bound pod was given."""
    text = note(pod, names.ANNOTATION_DEVICE_ALLOCATED)
    found: list[Json] = json.loads(text).get("gpu", []) if text else []
    return found
