"""A cluster told event by event: what a correct control plane would write, and what a broken one might."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from berth.contracts import names, subjects
from berth.contracts.codec import encode
from berth.contracts.ledger import (
    AccountStamp,
    Allocation,
    Decision,
    DeviceGrant,
    Epoch,
    GangRef,
    Plan,
    PlanStatus,
)
from berth.invariants import Observer

Json = dict[str, Any]


class Story:
    """Objects and ledger as they are, and an observer that is told of each change of them."""

    def __init__(self, **options: Any) -> None:
        self.observer = Observer(**{"keep_log": True, **options})
        self.now_s = 0.0
        self.sequence = 0
        self.version = 0
        self.current = 1
        self.objects: dict[str, dict[str, Json]] = {}
        self.stored: list[tuple[str, bytes, bool, int]] = []
        self.decisions: dict[str, Decision] = {}
        self.plans = 0
        self.epoch(1)

    # --- plain writes ------------------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        self.now_s += seconds
        self.observer.at(self.now_s)

    def write(self, key: str, value: Any, *, deleted: bool = False) -> None:
        self.sequence += 1
        raw = b"" if deleted else encode(value)
        self.stored.append((key, raw, deleted, self.sequence))
        self.observer.ledger(key, raw, deleted, self.sequence)

    def lose(self, count: int) -> None:
        """The ledger loses its newest messages; its sequences are used again."""
        del self.stored[len(self.stored) - count :]
        self.sequence = self.stored[-1][3] if self.stored else 0
        self.observer.ledger_lost(self.stored)

    def put(self, kind: str, name: str, body: Json, namespace: str = "") -> None:
        self.version += 1
        meta = {"name": name, "uid": f"uid-{name}", **({"namespace": namespace} if namespace else {})}
        known = self.objects.setdefault(kind, {}).get(name, {})
        meta |= {key: value for key, value in known.get("metadata", {}).items() if key in ("uid", "creationTimestamp")}
        meta |= body.pop("metadata", {})
        meta["resourceVersion"] = str(self.version)
        self.objects[kind][name] = data = {**body, "metadata": meta}
        self.observer.api(kind, data)

    def change(self, kind: str, name: str, change: Mapping[str, Any]) -> None:
        """A merge patch, made on a copy."""
        data = msgspec.json.decode(msgspec.json.encode(self.objects[kind][name]))
        _merge(data, change)
        self.version += 1
        data["metadata"]["resourceVersion"] = str(self.version)
        self.objects[kind][name] = data
        self.observer.api(kind, data)

    def delete(self, kind: str, name: str) -> None:
        self.version += 1
        data = self.objects[kind].pop(name)
        last = {**data, "metadata": {**data["metadata"], "resourceVersion": str(self.version)}}
        self.observer.api(kind, last, deleted=True)

    # --- objects -----------------------------------------------------------------------------------------------------

    def node(self, name: str = "n1", cpu: str = "8", gpus: int = 2, pods: str = "110") -> None:
        self.put("nodes", name, {"status": {"allocatable": {"cpu": cpu, "pods": pods}}})
        resources = {names.GPU_CORE: "100", names.GPU_MEMORY_RATIO: "100", names.GPU_MEMORY: "16Gi"}
        devices = [{"type": "gpu", "minor": minor, "health": True, "resources": resources} for minor in range(gpus)]
        self.put("devices", name, {"spec": {"devices": devices}})

    def health(self, node: str, *healthy: bool) -> None:
        """The node's GPUs, and which of them are healthy; those that are not named are not there any more."""
        devices = [{"type": "gpu", "minor": minor, "health": health} for minor, health in enumerate(healthy)]
        self.change("devices", node, {"spec": {"devices": devices}})

    def quota(self, name: str, most: str, least: str = "0", parent: str = "") -> None:
        labels = {names.LABEL_QUOTA_PARENT: parent} if parent else {}
        body = {"metadata": {"labels": labels}, "spec": {"max": {"cpu": most}, "min": {"cpu": least}}}
        self.put("elasticquotas", name, body, "quotas")

    def pod(
        self,
        name: str,
        cpu: str = "1",
        *,
        uid: str = "",
        gang: str = "",
        minimum: int = 0,
        terms: Mapping[str, Any] = {},
        **labels: str,
    ) -> None:
        notes = {names.ANNOTATION_GANG_NAME: gang, names.ANNOTATION_GANG_MIN: str(minimum)} if gang else {}
        meta: Json = {"annotations": notes, "labels": labels}
        if uid:
            meta["uid"] = uid
        containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
        spec = {"schedulerName": names.SCHEDULER_NAME, "containers": containers, **terms}
        body = {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
        self.put("pods", name, body, "default")

    def reservation(
        self,
        name: str = "r",
        cpu: str = "4",
        node: str = "n1",
        app: str = "db",
        notes: Mapping[str, str] = {},
        **spec: Any,
    ) -> None:
        body = {
            "metadata": {"annotations": {names.ANNOTATION_PLAN: "made", **notes}},
            "spec": {"owners": [{"labelSelector": {"matchLabels": {"app": app}}}], **spec},
            "status": {"phase": "Available", "nodeName": node, "allocatable": {"cpu": cpu}},
        }
        self.put("reservations", name, body)

    # --- the protocol ------------------------------------------------------------------------------------------------

    def epoch(self, number: int) -> None:
        """Every unbound pod is withdrawn, then the epoch begins."""
        for name, data in list(self.objects.get("pods", {}).items()):
            if not data["spec"].get("nodeName"):
                self.withdraw(name)
        self.current = number
        self.decisions.clear()
        self.write(subjects.EPOCH_KEY, Epoch(epoch=number, pods_version=self.version))

    def decision(self, name: str, node: str = "n1", minors: Mapping[int, int] = {}, **fields: Any) -> Decision:
        data = self.objects["pods"][name]
        meta = data["metadata"]
        cpu = data["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        milli = int(cpu.removesuffix("m")) if cpu.endswith("m") else int(cpu) * 1000
        amounts = {"cpu": milli}
        grants = [
            DeviceGrant(kind="gpu", minor=minor, amounts={names.GPU_CORE: part, names.GPU_MEMORY_RATIO: part})
            for minor, part in minors.items()
        ]
        return Decision(
            **{
                "plan": "",
                "namespace": "default",
                "name": name,
                "uid": meta["uid"],
                "attempt": int(meta["annotations"].get(names.ANNOTATION_ATTEMPT, "0")),
                "node": node,
                "pod_version": int(meta["resourceVersion"]),
                "basis": self.version,
                "allocation": Allocation(amounts=amounts, devices=grants),
                "accounts": [subjects.node_account(node)],
                **fields,
            }
        )

    def commit(
        self,
        *decisions: Decision,
        status: PlanStatus | None = PlanStatus.COMMITTED,
        plan: str = "",
        revisions: Mapping[str, int] = {},
    ) -> str:
        """A plan as one batch: decisions, stamps (with revisions by account), entry."""
        self.plans += 1
        plan = plan or f"plan-{self.plans}"
        for each in decisions:
            made = msgspec.structs.replace(each, plan=plan)
            self.decisions[each.name] = made
            self.write(subjects.decision_key(self.current, each.namespace, each.name), made)
        for account in {account for each in decisions for account in each.accounts}:
            self.write(
                subjects.account_key(self.current, account), AccountStamp(plan=plan, revision=revisions.get(account, 0))
            )
        if status is not None:
            self.entry(plan, status, len(decisions))
        return plan

    def entry(self, plan: str, status: PlanStatus, decisions: int = 0) -> None:
        self.write(subjects.plan_key(self.current, plan), Plan(id=plan, status=status, decisions=decisions))

    def place(self, name: str, node: str = "n1", minors: Mapping[int, int] = {}, **fields: Any) -> str:
        return self.commit(self.decision(name, node, minors, **fields))

    def gang(self, *members: str, node: str = "n1", **fields: Any) -> str:
        ref = GangRef(name="default/g", size=len(members))
        return self.commit(*(self.decision(name, node, gang=ref, **fields) for name in members))

    def lease(self, plan: str, *, epoch: int = 0) -> None:
        """The writer's Lease names a plan, and this epoch; 0: the one that LEDGER is in."""
        notes = {names.ANNOTATION_EPOCH: str(epoch or self.current), names.ANNOTATION_PLAN: plan}
        self.put("leases", "cluster-writer", {"metadata": {"annotations": notes}}, "berth-system")

    def bind(self, name: str, decision: Decision | None = None, **differently: Any) -> None:
        """The bind call lands, with what was decided (or with something else)."""
        made = msgspec.structs.replace(decision or self.decisions[name], **differently)
        self.lease(made.plan)
        self.land(name, made)

    def land(self, name: str, made: Decision) -> None:
        devices = [
            {"minor": grant.minor, "resources": {key: str(value) for key, value in grant.amounts.items()}}
            for grant in made.allocation.devices
        ]
        notes = {names.ANNOTATION_PLAN: made.plan}
        if devices:
            notes[names.ANNOTATION_DEVICE_ALLOCATED] = msgspec.json.encode({"gpu": devices}).decode()
        if made.quota:
            notes[names.ANNOTATION_QUOTA] = made.quota
        if made.reservation_uid:
            reference = {"name": made.reservation, "uid": made.reservation_uid}
            notes[names.ANNOTATION_RESERVATION_ALLOCATED] = msgspec.json.encode(reference).decode()
        if made.loans:
            notes[names.ANNOTATION_BORROWED] = msgspec.json.encode(made.loans).decode()
        spec: dict[str, Any] = {"nodeName": made.node}
        if devices:
            # As if it had asked for them all along: a note counts for no more than that.
            (container,) = self.objects["pods"][name]["spec"]["containers"]
            asked = dict(container["resources"]["requests"])
            for grant in made.allocation.devices:
                for key, value in grant.amounts.items():
                    asked[key] = str(int(asked.get(key, 0)) + value)
            spec["containers"] = [{**container, "resources": {"requests": asked}}]
        self.change("pods", name, {"metadata": {"annotations": notes}, "spec": spec})
        self.change("pods", name, {"status": {"phase": "Running"}})

    def withdraw(self, name: str) -> None:
        attempt = int(self.objects["pods"][name]["metadata"]["annotations"].get(names.ANNOTATION_ATTEMPT, "0")) + 1
        self.change("pods", name, {"metadata": {"annotations": {names.ANNOTATION_ATTEMPT: str(attempt)}}})

    def tidy(self, name: str) -> None:
        """The decision's key is deleted."""
        self.write(subjects.decision_key(self.current, "default", name), None, deleted=True)
        self.decisions.pop(name, None)

    # --- the verdict -------------------------------------------------------------------------------------------------

    @property
    def broken(self) -> list[str]:
        return sorted({violation.promise for violation in self.observer.violations})

    def finish(self, *, quiet: bool = False) -> list[str]:
        return [result.name for result in self.observer.finish(quiet=quiet).broken]


class Good:
    """A control plane without faults: random, but within every rule. `steps` events on a small cluster."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.story = Story(**options)
        self.random = random.Random(seed)
        self.made = 0
        self.free: dict[tuple[str, int], int] = {}
        self.cpu: dict[str, int] = {}
        self.left = {"company": 20, "blue": 16, "red": 16}
        self.waiting: list[str] = []
        self.decided: list[str] = []
        self.bound: list[str] = []
        self.gone: list[str] = []
        self.took: dict[str, tuple[str, int, int, str]] = {}
        for name in ("n1", "n2", "n3"):
            self.story.node(name)
            self.cpu[name] = 8
            self.free |= {(name, 0): 100, (name, 1): 100}
        self.story.quota("company", "20")
        self.story.quota("blue", "16", parent="company")
        self.story.quota("red", "16", parent="company")

    def run(self, steps: int) -> Story:
        moves = [self.create, self.create, self.decide, self.decide, self.bind, self.bind, self.remove]
        moves += [self.withdraw, self.tidy, self.end, self.raise_epoch, self.touch]
        weights = [4, 4, 5, 5, 4, 4, 3, 1, 3, 1, 0.3, 2]
        for _ in range(steps):
            self.story.wait(self.random.uniform(0, 2))
            self.random.choices(moves, weights)[0]()
        return self.story

    def create(self) -> None:
        self.made += 1
        name = f"p{self.made}"
        self.story.pod(name)
        self.waiting.append(name)

    def decide(self) -> None:
        if not self.waiting:
            return
        name, node = self.waiting[0], self.random.choice(sorted(self.cpu))
        minor, part = self.random.choice([0, 1]), self.random.choice([20, 50, 100])
        group = self.random.choice(["blue", "red", ""])
        line = [group, "company"] if group else []
        if self.free[node, minor] < part or not self.cpu[node] or any(not self.left[each] for each in line):
            return
        self.take(name, (node, minor, part, group))
        self.story.place(name, node, {minor: part}, quota=f"/{group}" if group else "")
        self.waiting.remove(name)
        self.decided.append(name)

    def take(self, name: str, took: tuple[str, int, int, str]) -> None:
        node, minor, part, group = self.took[name] = took
        self.free[node, minor] -= part
        self.cpu[node] -= 1
        for each in [group, "company"] if group else []:
            self.left[each] -= 1

    def give(self, name: str) -> None:
        node, minor, part, group = self.took.pop(name)
        self.free[node, minor] += part
        self.cpu[node] += 1
        for each in [group, "company"] if group else []:
            self.left[each] += 1

    def bind(self) -> None:
        if self.decided:
            name = self.decided.pop(self.random.randrange(len(self.decided)))
            self.story.bind(name)
            self.bound.append(name)

    def remove(self) -> None:
        some: Sequence[list[str]] = [each for each in (self.waiting, self.decided, self.bound) if each]
        if some:
            names_ = self.random.choice(some)
            name = names_.pop(self.random.randrange(len(names_)))
            self.story.delete("pods", name)
            if name in self.took:
                self.give(name)
            self.gone.append(name)

    def withdraw(self) -> None:
        if self.decided:
            name = self.decided.pop()
            self.story.withdraw(name)
            self.give(name)
            self.waiting.append(name)

    def tidy(self) -> None:
        settled = [name for name in self.gone if name in self.story.decisions]
        if settled:
            self.story.tidy(settled[0])

    def end(self) -> None:
        if self.bound:
            name = self.bound.pop()
            self.story.change("pods", name, {"status": {"phase": "Succeeded"}})
            self.give(name)
            self.gone.append(name)

    def raise_epoch(self) -> None:
        self.story.epoch(self.story.current + 1)
        for name in self.decided:
            self.give(name)
        self.waiting += self.decided
        self.decided.clear()

    def touch(self) -> None:
        if self.bound:
            name = self.random.choice(self.bound)
            self.story.change("pods", name, {"status": {"podIP": f"10.0.0.{self.random.randrange(9)}"}})


def _merge(into: Json, change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, Mapping):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value
