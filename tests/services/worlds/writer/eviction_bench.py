"""Evictions against the simulated API without HTTP: a leader in memory, a Lease that is ours, a view moved by hand."""

from __future__ import annotations

import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import msgspec
from tests.services.worlds.writer.decisions import make_decision
from tests.services.worlds.writer.objects import pod_path, read
from tests.services.worlds.writer.store_api import StoreApi
from tests.services.worlds.writer.wave_bench import Leader

from berth.bus.port import Stored
from berth.cluster_writer.cluster_view import ClusterView
from berth.cluster_writer.eviction_executor import EvictionExecutor
from berth.contracts import names, state, subjects
from berth.contracts.base import Message
from berth.contracts.codec import encode
from berth.contracts.ledger import Decision, Epoch, GangRef, Plan, PlanStatus, Victim
from berth.kube.answer import Answer, answer_of
from berth.kube.bodies import delete_options
from berth.rules.preemption import BY_QUOTA
from berth.simcluster import Store
from berth.simcluster.store import Path
from berth.transaction.revocations import KIND, name_of_group

KINDS = ("pods", "nodes", "reservations", "devices", "podgroups")
NOW = 1_700_000_000.0


class EvictingApi(StoreApi):
    """`KubeApi` with its deletions; each request is written down as `verb name`; `ask` is a dry run of a deletion."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.sent: list[str] = []
        self.policies: dict[str, Answer] = {}
        """What is always answered to `verb name`."""

    def refuse(self, request: str, status: int, message: str, **details: Any) -> None:
        """From now on the server answers `verb name` with this Status; to a deletion, also where it is asked about."""
        body = {"kind": "Status", "code": status, "message": message, **details}
        for each in (request, request.replace("delete ", "ask ")):
            self.policies[each] = answer_of(status, msgspec.json.encode(body), "", None)

    async def patch(self, resource: Any, namespace: str, name: str, body: Any, **how: Any) -> Answer:
        verb = f"patch {how.get('subresource', '')}".strip()
        self.sent.append(f"{verb} {name}")
        told = self.policies.get(f"{verb} {name}")
        if told is not None:
            return told
        return await super().patch(resource, namespace, name, body, **how)

    async def delete(
        self,
        resource: Any,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        version: str = "",
        grace_s: int | None = None,
        dry_run: bool = False,
    ) -> Answer:
        verb = "ask" if dry_run else "delete"
        self.sent.append(f"{verb} {name}")
        preconditions = {"uid": uid, "resourceVersion": version}
        body = delete_options(uid=uid, version=version, grace_s=grace_s, dry_run=dry_run)
        told = self.policies.get(f"{verb} {name}") or self._before(verb, name, preconditions)
        if told is not None:
            return told
        reply = self.store.delete(self._path(resource, namespace, name), body)
        return answer_of(reply.status, bytes(reply.body), "", None)

    async def evict(
        self,
        namespace: str,
        name: str,
        *,
        uid: str,
        version: str = "",
        grace_s: int | None = None,
        dry_run: bool = False,
    ) -> Answer:
        self.sent.append(f"{'ask' if dry_run else 'evict'} {name}")
        return await super().evict(namespace, name, uid=uid, version=version, grace_s=grace_s, dry_run=dry_run)


class Events:
    """What was told, as `what name`."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def marked(self, victim: state.Pod, mark: Any) -> None:
        self.told.append(f"marked {victim.name}")

    def sent(self, victim: state.Pod, mark: Any) -> None:
        self.told.append(f"sent {victim.name}")

    def refused(self, victim: state.Pod, mark: Any, message: str) -> None:
        self.told.append(f"refused {victim.name}")

    def spared(self, victim: state.Pod, mark: Any, message: str) -> None:
        self.told.append(f"spared {victim.name}")

    def given_up(self, pod: Any, plan: str, decision: Decision | None, reason: str) -> None:
        self.told.append(f"given up {pod.name}: {reason}")


class EvictionBench:
    """The executor with all that is around it. `turn` brings the view up to date and judges once."""

    def __init__(self, api: EvictingApi) -> None:
        self.api = api
        self.now_s = NOW
        self.unread = ""
        """A kind that is not read to its end yet."""
        self.leader = Leader()
        self.events = Events()
        self.lease = SimpleNamespace(active=True, record=SimpleNamespace(epoch=1, plan=""))
        self.cluster = ClusterView(lambda *args: None)
        self.executor = self.another()
        self.write(subjects.EPOCH_KEY, Epoch(epoch=1))
        self._put(subjects.named_key("node", "n"), api.node("n"))
        self._known: dict[str, str] = {}

    def another(self) -> EvictionExecutor:
        """One that has read the same and remembers nothing."""
        clock: Any = SimpleNamespace(now=lambda: self.now_s, monotonic=lambda: self.now_s)
        return EvictionExecutor(
            self.cluster,
            self.api,  # type: ignore[arg-type]
            self.leader,  # type: ignore[arg-type]
            self.lease,  # type: ignore[arg-type]
            clock,
            random.Random(1),
            self.events,
        )

    def write(self, key: str, message: Message | None, *, read_too: bool = True) -> None:
        """An entry of LEDGER, at the leader, and as this writer reads it."""
        self.leader.sequence += 1
        value = encode(message) if message is not None else b""
        self.leader.stored[key] = Stored(self.leader.sequence, value, message is None)
        if read_too:
            self.cluster.read_ledger(key, value, message is None, self.leader.sequence)

    def _put(self, key: str, message: Message) -> None:
        self.cluster.read_state(key, encode(message), deleted=False, gap=False)

    def pod(self, name: str, priority: int, node: str = "", **spec: Any) -> state.Pod:
        """A pod of the store, shown at once."""
        on = {"nodeName": node} if node else {}
        if priority:
            of_class = {"metadata": {"name": f"p{priority}"}, "value": priority}
            self.api.store.create(Path("scheduling.k8s.io", "v1", "priorityclasses"), of_class)
            on["priorityClassName"] = f"p{priority}"
        self.api.pod(name, terminationGracePeriodSeconds=30, **on, **spec)
        self.show()
        return self.api.seen(name)

    def show(self) -> None:
        """STATE is as the store is."""
        items = {name: self.api.raw(name) for name in [*self._known, *self._listed()]}
        for name, raw in items.items():
            key = subjects.pod_key("default", name)
            if raw is None:
                version = str(self.api.store.version).encode()
                self.cluster.read_state(key, version, deleted=True, gap=False)
                self._known.pop(name, None)
            elif self._known.get(name) != raw["metadata"]["resourceVersion"]:
                self._known[name] = raw["metadata"]["resourceVersion"]
                self._put(key, self.api.seen(name))
        for kind in KINDS:
            is_read = kind != self.unread
            marker = state.Synced(kind=kind, version=self.api.store.version, complete=is_read)
            self._put(subjects.synced_key(kind), marker)
        self.cluster.end_of_state()
        self.executor.at_end()

    def _listed(self) -> Iterable[str]:
        collection = self.api.store.state.find("", "v1", "pods")
        assert collection is not None
        return [msgspec.json.decode(obj.raw)["metadata"]["name"] for obj in collection.items.values()]

    def nominate(
        self, waits: str, *victims: str, plan: str = "p", size: int = 0, begin: bool = True, reason: str = ""
    ) -> Decision:
        """A committed plan in which a pod waits for victims to leave node n."""
        pod = self.api.seen(waits)
        leaving = [
            Victim(namespace="default", name=each.name, uid=each.uid, version=each.version, node="n")
            for each in map(self.api.seen, victims)
        ]
        decision = make_decision(
            pod,
            plan,
            "n",
            basis=self.api.store.version,
            nominates=True,
            victims=leaving,
            gang=GangRef(name="default/w", size=size) if size else None,
            eviction_reason=reason,
        )
        self.write(subjects.decision_key(1, "default", waits), decision)
        self.write(subjects.plan_key(1, plan), Plan(id=plan, status=PlanStatus.COMMITTED))
        self.lease.record.plan = plan
        if begin:
            self.executor.begin(decision)
        return decision

    def revoke(self, *victims: str, group: str = "team", plan: str = "p", begin: bool = True) -> Decision:
        """A committed plan by which victims leave a quota group, and nobody waits."""
        namespace, name = name_of_group("", group)
        leaving = [
            Victim(namespace="default", name=each.name, uid=each.uid, version=each.version, node="n")
            for each in map(self.api.seen, victims)
        ]
        decision = Decision(
            plan=plan,
            kind=KIND,
            namespace=namespace,
            name=name,
            uid=name,
            attempt=0,
            node="",
            pod_version=0,
            basis=self.api.store.version,
            other_basis=self.api.store.version,
            nominates=True,
            victims=leaving,
            eviction_reason=BY_QUOTA,
        )
        self.write(subjects.decision_key(1, namespace, name), decision)
        self.write(subjects.plan_key(1, plan), Plan(id=plan, status=PlanStatus.COMMITTED))
        self.lease.record.plan = plan
        if begin:
            self.executor.begin(decision)
        return decision

    async def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.show()
            await self.executor.turn()
        self.show()

    def note(self, name: str, key: str) -> str:
        raw = self.api.raw(name)
        assert raw is not None
        return str(raw["metadata"].get("annotations", {}).get(key, ""))

    def is_leaving(self, name: str) -> bool:
        raw = read(self.api.store, pod_path(name))
        return raw is None or "deletionTimestamp" in raw["metadata"]

    def attempt(self, name: str) -> str:
        return self.note(name, names.ANNOTATION_ATTEMPT)
