"""The rest of the control plane around quota-manager, on a real nats-server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tests.services.worlds.shell import Replica, ShellWorld

from berth.bus.port import Entry
from berth.contracts import buckets, names, state
from berth.contracts.codec import decode, encode
from berth.contracts.question import StatusAnswer, StatusQuestion
from berth.contracts.quota import QuotaGroup
from berth.contracts.subjects import named_key, namespaced_key, pod_key, question_subject, quota_key
from berth.quota_manager.settings import SERVICE, Settings
from berth.quota_manager.shell import main
from berth.testing.nats_server import NatsServer

DEADLINE_S = 30.0
T = TypeVar("T")


async def eventually(check: Callable[[], T], what: str) -> T:
    """Polls until `check` gives something true."""
    deadline = time.monotonic() + DEADLINE_S
    while not (value := check()):
        assert time.monotonic() < deadline, f"{what}: not in {DEADLINE_S} s"
        await asyncio.sleep(0.01)
    return value


class Groups:
    """QUOTA as a solver follows it."""

    def __init__(self) -> None:
        self.now: dict[str, QuotaGroup] = {}
        self.history: list[tuple[str, QuotaGroup | None]] = []

    def reset(self) -> None:
        self.now.clear()

    def apply(self, entry: Entry) -> None:
        if entry.deleted:
            self.now.pop(entry.key, None)
            self.history.append((entry.key, None))
        else:
            group = self.now[entry.key] = decode(entry.value, QuotaGroup)
            self.history.append((entry.key, group))

    def end(self, sequence: int) -> None:
        pass

    def runtime(self, name: str, tree: str = "") -> int | None:
        group = self.now.get(quota_key(tree, name))
        return None if group is None else group.runtime.get("cpu")


class World(ShellWorld[Settings]):
    """The rest of the control plane: writes STATE, follows QUOTA, keeps commands and events."""

    service = SERVICE
    publishes = buckets.QUOTA
    kinds = ("pods", "nodes", "elasticquotas", "elasticquotaprofiles")

    def __init__(self, server: NatsServer) -> None:
        self.groups = Groups()
        super().__init__(server, self.groups)

    async def start(self, instance: str = "one", **settings: Any) -> Replica[Settings]:
        """A replica of the service, in this process."""
        full = {"writeback_interval_s": 0.2, "overuse_grace_s": 0.1, "lease_ttl_s": 2} | settings
        context = await self.context(instance, Settings(**full))
        return self.run(context, main(context))

    def pod(self, name: str, *, quota: str = "", cpu: int = 1000, node: str = "") -> None:
        self.version += 1
        labels = {names.LABEL_QUOTA_NAME: quota} if quota else {}
        template = state.PodTemplate(requests={"cpu": cpu}, labels=labels)
        pod = state.Pod(namespace="ns", name=name, uid=name, version=self.version, template=template, node=node)
        self.put(pod_key("ns", name), pod)

    def node(self, name: str, cpu: int = 10_000) -> None:
        self.version += 1
        node = state.Node(name=name, uid=name, version=self.version, allocatable={"cpu": cpu})
        self.put(named_key("node", name), node)

    def quota(self, name: str, *, cpu: int = 8000, minimum: int = 0, **fields: Any) -> None:
        self.version += 1
        known: dict[str, Any] = {"namespace": "ns", "uid": f"uid-{name}", "min": {"cpu": minimum}, "max": {"cpu": cpu}}
        quota = state.ElasticQuota(name=name, version=self.version, **(known | fields))
        self.put(namespaced_key("elasticquota", "ns", name), quota)

    async def statuses(self) -> dict[str, StatusAnswer]:
        answers = await self.bus.ask_all(question_subject(SERVICE, "status"), encode(StatusQuestion()), wait_s=0.3)
        return {answer.instance: answer for answer in (decode(data, StatusAnswer) for data in answers)}
