"""kube-scheduler on a real API server, which decides the pods of one world after the other.

Between two worlds every object is deleted. There is no controller-manager: the budgets' status and the state of claims
come with the world, and a small volume controller binds what kube-scheduler has chosen.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
from tests.parity.generator import LEAVING, standing
from tests.parity.schedule_log import MODULES, Said, ScheduleLog
from tests.parity.volume_controller import VolumeController
from tests.parity.world import NAMESPACES, RESOURCES, Identity, Manifest, Outcome, Step, Trace, World, identity

from berth.cli.stack.process import Process
from berth.testing.kube_server import KubeServer, find_binary

SCHEDULER: Final = "default-scheduler"
DECIDED_S: Final = 10.0
"""Longest wait for a decision."""
CONNECTIONS: Final = 16
GRACE: Final = 3600
"""Seconds for which a pod stays that was deleted: longer than any world."""
CHANGING: Final = ("Pod", "PersistentVolume", "PersistentVolumeClaim")
"""Kinds that a decision may change."""


class ApiError(RuntimeError):
    """The API server refused something; the text is its answer."""


class WatchEndedError(RuntimeError):
    """The API server cannot go on with a watch; the text says why."""


class Reference:
    """An asynchronous context. `settle_s`: how long kube-scheduler has to see a world before it decides."""

    def __init__(self, settle_s: float = 0.15) -> None:
        self.settle_s = settle_s
        self._server = KubeServer(
            arguments=["--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection"]
        )
        self._there: set[str] = set()
        self._pods: dict[str, Manifest] = {}
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        server = self._server.start()
        headers = {"Authorization": f"Bearer {server.admin_token}"}
        connector = aiohttp.TCPConnector(limit=CONNECTIONS + 6, ssl=server.tls)
        self._session = aiohttp.ClientSession(
            server.url, headers=headers, connector=connector, timeout=aiohttp.ClientTimeout(total=None)
        )
        for name in NAMESPACES:
            await self.call("POST", RESOURCES["Namespace"].path(), _namespace(name))
        self.standing = [await self._create(each) for each in standing()]
        await self._start_scheduler()
        self._controller = VolumeController(self.call)
        self._tasks = [asyncio.create_task(self._follow(kind)) for kind in CHANGING]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.close()
        await self._process.stop()
        self._server.close()

    async def _start_scheduler(self) -> None:
        home = self._server.home
        config = home / "kube-scheduler.yaml"
        config.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "leaderElection: {leaderElect: false}\npercentageOfNodesToScore: 100\n"
            f"clientConnection: {{kubeconfig: {self._server.admin_kubeconfig}, qps: 5000, burst: 5000}}\n"
        )
        path = home / "kube-scheduler.log"
        path.touch()
        self._log = ScheduleLog(path)
        command = [str(find_binary("kube-scheduler")), f"--config={config}", "--secure-port=0", f"--vmodule={MODULES}"]
        self._process = Process("kube-scheduler", command, path)
        await self._process.start()

    # --- worlds ------------------------------------------------------------------------------------------------------

    async def decide(self, world: World) -> Trace:
        """Make the world, let each of its pods be decided, and remove it again."""
        await self._clear()
        refused: list[str] = []
        objects = [*self.standing, *await self._make(world.objects, refused)]
        await asyncio.sleep(self.settle_s)
        known = {identity(each): each for each in await self._changing()}
        objects = [known.get(identity(each), each) for each in objects]
        steps = []
        for manifest in world.pending:
            step = await self._step(manifest, known, keep="nominated" in world.features, refused=refused)
            if step is not None:
                steps.append(step)
        return Trace(world, tuple(objects), tuple(steps), tuple(refused))

    async def _step(
        self, manifest: Manifest, known: dict[Identity, Manifest], *, keep: bool, refused: list[str]
    ) -> Step | None:
        since = self._log.size
        try:
            pod = await self._create_pending(manifest)
        except ApiError as error:
            refused.append(str(error))
            return None
        meta = pod["metadata"]
        name = f"{meta['namespace']}/{meta['name']}"
        last = await self._decided(pod)
        if last is None:
            outcome = Outcome("none")
        else:
            deadline = time.monotonic() + DECIDED_S
            while (said := self._log.said_of(name, since)).is_preempting and time.monotonic() < deadline:
                await asyncio.sleep(0.005)
            outcome = _outcome(last, said)
        listed = await self._changing()
        if keep and any(_waits_nominated(each) for each in listed):
            listed = await self._calm(listed, since)
        if outcome.verdict != "bound" and not (keep and outcome.nominated):
            victims = [each for each in listed if _name(each) in outcome.victims]
            ending = [pod, *victims]
            await asyncio.gather(*(self._delete_pod(each) for each in ending))
            ended = {identity(each) for each in ending}
            listed = [each for each in listed if identity(each) not in ended]
            await self._until(lambda: meta["uid"] not in self._pods)
        after = tuple(_changes(known, listed))
        known.clear()
        known.update((identity(each), each) for each in listed)
        if any(each.kind != "Pod" for each, _ in after):
            await asyncio.sleep(self.settle_s)
        return Step(pod, outcome, after)

    async def _calm(self, listed: list[Manifest], since: int) -> list[Manifest]:
        """The objects once the pods that were nominated before, which a decision may set going again, rest."""
        deadline = time.monotonic() + DECIDED_S
        while time.monotonic() < deadline:
            await asyncio.sleep(self.settle_s)
            before, listed = listed, await self._changing()
            if before == listed and not self._log.has_running_preemption(since):
                break
        return listed

    async def _decided(self, pod: Manifest) -> Manifest | None:
        uid, is_gated = pod["metadata"]["uid"], bool(pod["spec"].get("schedulingGates"))

        def is_decided() -> bool:
            pod = self._pods.get(uid)
            if pod is None:
                return False
            condition = _condition(pod)
            is_refused = condition is not None and (is_gated or condition["reason"] != "SchedulingGated")
            return bool(pod["spec"].get("nodeName")) or is_refused

        await self._until(is_decided)
        pod = self._pods.get(uid)
        return pod if is_decided() else None

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with self._changed:
            try:
                await asyncio.wait_for(self._changed.wait_for(holds), DECIDED_S)
            except TimeoutError:
                return

    async def _changing(self) -> list[Manifest]:
        """The objects, as they are now, that a decision may change."""
        found: list[Manifest] = []
        for kind in CHANGING:
            answer = await self.call("GET", RESOURCES[kind].path())
            meta = {"apiVersion": RESOURCES[kind].api_version, "kind": kind}
            found += [{**meta, **each} for each in answer["items"]]
        return found

    async def _clear(self) -> None:
        """Remove every object of the last world."""
        paths = [
            RESOURCES[kind].path(namespace)
            for kind in self._there | set(CHANGING)
            for namespace in (NAMESPACES if RESOURCES[kind].namespaced else ("",))
        ]
        await asyncio.gather(
            *(self.call("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background") for path in paths)
        )
        self._there.clear()
        await self._until(lambda: not self._pods)

    async def _make(self, objects: Iterable[Manifest], refused: list[str]) -> list[Manifest]:
        by_kind: dict[str, list[Manifest]] = {}
        for each in objects:
            by_kind.setdefault(each["kind"], []).append(each)
        labelled = {each["metadata"]["name"] for each in by_kind.get("Namespace", ())}
        by_kind.setdefault("Namespace", []).extend(_namespace(each) for each in NAMESPACES if each not in labelled)
        self._there = set(by_kind) - {"Namespace"}
        made: list[Manifest] = []
        uids: dict[Identity, str] = {}
        for kind in sorted(by_kind, key=list(RESOURCES).index):
            for answer in await asyncio.gather(*map(self._create, by_kind[kind]), return_exceptions=True):
                if isinstance(answer, ApiError):
                    refused.append(str(answer))
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    made.append(answer)
                    uids[identity(answer)] = answer["metadata"]["uid"]
            if kind == "PersistentVolumeClaim":
                await self._name_owners(made, uids)
        return made

    async def _name_owners(self, made: list[Manifest], uids: dict[Identity, str]) -> None:
        """A volume that is bound names its claim's uid."""
        for at, volume in enumerate(made):
            reference = volume.get("spec", {}).get("claimRef") if volume["kind"] == "PersistentVolume" else None
            uid = reference and uids.get(Identity("PersistentVolumeClaim", reference["namespace"], reference["name"]))
            if uid:
                path = RESOURCES["PersistentVolume"].path("", volume["metadata"]["name"])
                made[at] = {**_typed(volume), **await self.call("PATCH", path, {"spec": {"claimRef": {"uid": uid}}})}

    # --- single requests ---------------------------------------------------------------------------------------------

    async def _create(self, manifest: Manifest) -> Manifest:
        """Create an object with its status. Raises ApiError."""
        kind, namespace, name = identity(manifest)
        resource = RESOURCES[kind]
        if kind == "Namespace":
            return {**_typed(manifest), **await self._label(name, manifest["metadata"].get("labels", {}))}
        status = manifest.get("status") if kind != "Node" else None
        body = {**manifest}
        if status:
            body.pop("status")
        made = await self.call("POST", resource.path(namespace), body)
        if status:
            made = await self.call("PATCH", resource.path(namespace, name, "status"), {"status": status})
        if kind == "Pod" and LEAVING in manifest["metadata"].get("annotations", {}):
            made = await self.call("DELETE", resource.path(namespace, name), {"gracePeriodSeconds": GRACE})
        return {**_typed(manifest), **made}

    async def _create_pending(self, manifest: Manifest) -> Manifest:
        """Create a pod. One that comes with a nominated node has it before it is decided. Raises ApiError."""
        if "status" not in manifest:
            return await self._create(manifest)
        spec = {**manifest["spec"], "schedulingGates": [{"name": "parity/nominated"}]}
        _, namespace, name = identity(await self._create({**manifest, "spec": spec}))
        path = RESOURCES["Pod"].path(namespace, name)
        return {**_typed(manifest), **await self.call("PATCH", path, {"spec": {"schedulingGates": None}})}

    async def _label(self, namespace: str, labels: dict[str, str]) -> Manifest:
        wanted = {"kubernetes.io/metadata.name": namespace, **labels}
        patch = [{"op": "add", "path": "/metadata/labels", "value": wanted}]
        return dict(await self.call("PATCH", RESOURCES["Namespace"].path("", namespace), patch))

    async def _delete_pod(self, pod: Manifest) -> None:
        _, namespace, name = identity(pod)
        await self.call("DELETE", RESOURCES["Pod"].path(namespace, name) + "?gracePeriodSeconds=0")

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """The decoded answer. Raises ApiError."""
        kind = "application/json"
        if method == "PATCH":
            kind = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
        data = json.dumps(body).encode() if body is not None else None
        async with self._session.request(method, path, data=data, headers={"Content-Type": kind}) as response:
            answer = await response.read()
            if response.status >= 300 and not (method == "DELETE" and response.status == 404):
                raise ApiError(f"{method} {path}: {response.status} {answer[:1500].decode()}")
            return _lean(json.loads(answer))

    async def _follow(self, kind: str) -> None:
        """Watch a kind, from the start again when the API server ends the watch."""
        while True:
            if kind == "Pod":
                self._pods.clear()
            with suppress(aiohttp.ClientError, WatchEndedError):
                await self._watch(kind)
            await asyncio.sleep(0.05)

    async def _watch(self, kind: str) -> None:
        path = RESOURCES[kind].path() + "?watch=1&resourceVersion=0"
        async with self._session.get(path) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    await self._see(kind, json.loads(line))

    async def _see(self, kind: str, event: dict[str, Any]) -> None:
        found = event["object"]
        if event["type"] == "ERROR":
            raise WatchEndedError(str(found))
        if kind != "Pod":
            with suppress(ApiError):  # of an object that is gone by now
                await self._controller.see(kind, event["type"], found)
            return
        async with self._changed:
            uid = found["metadata"]["uid"]
            if event["type"] == "DELETED":
                self._pods.pop(uid, None)
            else:
                self._pods[uid] = found
            self._changed.notify_all()


def _lean(answer: dict[str, Any]) -> dict[str, Any]:
    """Without who has written which field."""
    for each in answer.get("items", [answer]):
        each.get("metadata", {}).pop("managedFields", None)
    return answer


def _namespace(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _typed(manifest: Manifest) -> Manifest:
    return {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"]}


def _condition(pod: Manifest) -> dict[str, Any] | None:
    conditions = pod.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "PodScheduled" and each["status"] == "False"), None)


def _outcome(pod: Manifest, said: Said) -> Outcome:
    node = pod["spec"].get("nodeName", "")
    if node:
        return Outcome("bound", node=node, feasible=tuple(sorted(said.scores) or [node]), scores=said.scores)
    condition = _condition(pod) or {}
    verdict = {"Unschedulable": "unschedulable", "SchedulingGated": "gated"}.get(condition.get("reason", ""), "error")
    nominated = pod["status"].get("nominatedNodeName", "")
    return Outcome(verdict, message=condition.get("message", ""), nominated=nominated, victims=said.victims)


def _name(item: Manifest) -> str:
    return f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"


def _waits_nominated(item: Manifest) -> bool:
    """A pod that is nominated to a node and not bound."""
    return bool(item.get("status", {}).get("nominatedNodeName")) and not item["spec"].get("nodeName")


def _changes(known: dict[Identity, Manifest], listed: list[Manifest]) -> Iterable[tuple[Identity, Manifest | None]]:
    there = {identity(each): each for each in listed}
    for name in known:
        if name not in there:
            yield name, None
    for name, item in there.items():
        before = known.get(name)
        if before is None or before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            yield name, item
