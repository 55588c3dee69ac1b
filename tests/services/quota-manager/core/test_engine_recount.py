"""News of every kind in any order: the engine ends where a fresh one does, and tells of every group that changed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from berth.contracts.quota import QuotaRules
from berth.quota_manager.core.book import Claim, ClassKey
from berth.quota_manager.core.engine import Engine, Rules
from berth.quota_manager.core.group import GroupSpec
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP

STEPS = 120
GROUPS = ("a", "b", "c", "d", DEFAULT_GROUP, SYSTEM_GROUP, ROOT_GROUP)
RESOURCES = ("cpu", "memory", "gpu")
TOLD = ("request", "child_request", "used", "np_request", "np_used", "allocated", "guaranteed", "runtime")
KEPT = (*TOLD, "self_request", "limited", "effective_min")
Figures = dict[str, dict[str, Mapping[str, int]]]


class Cluster:
    """What is true, beside an engine that is told each piece of it."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.rules = Rules(
            scales_min=rng.random() < 0.5,
            guarantees_use=rng.random() < 0.5,
            charging=QuotaRules(uses_default=rng.random() < 0.7),
        )
        self.engine = Engine(self.rules)
        self.quotas: dict[str, GroupSpec] = {}
        self.nodes: dict[str, dict[str, int]] = {}
        self.pods: dict[str, tuple[ClassKey, Claim]] = {}

    def step(self) -> None:
        draw = self.rng.random()
        if draw < 0.12:
            self.put_quota()
        elif draw < 0.17 and self.quotas:
            gone = self.rng.choice(sorted(self.quotas))
            del self.quotas[gone]
            self.engine.remove_quota(gone)
        elif draw < 0.3:
            self.change_node(self.rng.choice("123"))
        elif draw < 0.31:
            for book in (self.quotas, self.nodes, self.pods):
                book.clear()
            self.engine.reset()
        else:
            self.change_pod(self.rng.choice("abcdefghij"))

    def put_quota(self) -> None:
        rng = self.rng
        name = rng.choice(GROUPS)
        namespace = rng.choice(("x", "y", name))
        ceiling = self.amounts(0, 20)
        spec = GroupSpec(
            name=name,
            namespace=namespace,
            parent=rng.choice(("", "a", "b", "c")),
            tree=rng.choice(("", "", "", "t")),
            is_root=rng.random() < 0.2,
            ignores_default_tree=rng.random() < 0.5,
            min={key: rng.randrange(10) for key in ceiling if rng.random() < 0.5},
            max=ceiling,
            weight={key: rng.randrange(5) for key in ceiling} if rng.random() < 0.3 else None,
            lends=rng.random() < 0.6,
            guarantees=rng.random() < 0.3,
            keeps_min=rng.random() < 0.3,
            namespaces=tuple(rng.sample(("x", "y", "z"), rng.randrange(3))),
            total={"cpu": rng.randrange(30)} if rng.random() < 0.5 else None,
        )
        self.quotas[f"{namespace}/{name}"] = spec
        self.engine.put_quota(f"{namespace}/{name}", spec)

    def change_node(self, name: str) -> None:
        if self.rng.random() < 0.3:
            self.nodes.pop(name, None)
            self.engine.remove_node(name)
        else:
            self.nodes[name] = self.amounts(-1, 30)
            self.engine.put_node(name, self.nodes[name])

    def change_pod(self, name: str) -> None:
        rng = self.rng
        if rng.random() < 0.3:
            self.pods.pop(name, None)
            self.engine.book.remove(name)
            return
        paid = rng.choice((*GROUPS, "nobody")) if rng.random() < 0.3 else ""
        label = rng.choice((*GROUPS, "nobody")) if rng.random() < 0.7 else ""
        of = ClassKey(label, "" if label else rng.choice("xyz"), paid)
        amounts = tuple((key, rng.randrange(1, 9)) for key in ("cpu", "gpu", "other") if rng.random() < 0.7)
        self.pods[name] = of, Claim(amounts, rng.random() < 0.5, rng.random() < 0.5)
        self.engine.book.put(name, *self.pods[name])

    def amounts(self, low: int, high: int) -> dict[str, int]:
        return {key: self.rng.randrange(low, high) for key in RESOURCES if self.rng.random() < 0.7}

    def fresh(self) -> Engine:
        """An engine that is told only what is true at the end, in another order."""
        engine = Engine(self.rules)
        for key in sorted(self.quotas, reverse=True):
            engine.put_quota(key, self.quotas[key])
        for name in sorted(self.pods, reverse=True):
            engine.book.put(name, *self.pods[name])
        for name, offered in self.nodes.items():
            engine.put_node(name, offered)
        engine.settle()
        return engine


def figures(engine: Engine, fields: tuple[str, ...]) -> Figures:
    groups: dict[str, Any] = {**engine.forest.groups, **{f"root of {t}": g for t, g in engine.forest.roots.items()}}
    return {name: {field: nonzero(getattr(group, field)) for field in fields} for name, group in groups.items()}


def nonzero(amounts: Mapping[str, int]) -> Mapping[str, int]:
    return {key: amount for key, amount in amounts.items() if amount}


@pytest.mark.parametrize("seed", range(25))
def test_news_in_any_order_settles_to_a_recount_and_every_change_is_told(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(rng)
    before: Figures = {}
    for step in range(STEPS):
        cluster.step()
        if rng.random() < 0.5:
            continue
        settled, fresh = cluster.engine.settle(), cluster.fresh()
        assert figures(cluster.engine, KEPT) == figures(fresh, KEPT), step
        assert sorted(cluster.engine.problems()) == sorted(fresh.problems()), step
        told = settled.limits | settled.figures
        now = figures(cluster.engine, TOLD)
        changed = {name for name in cluster.engine.forest.groups if now[name] != before.get(name)}
        assert changed <= told, step
        before = now


def test_a_change_of_a_quota_builds_no_forest_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    engine.put_node("n", {"cpu": 100})
    for name in ("p", "q"):
        engine.put_quota(name, GroupSpec(name=name, is_parent=True, max={"cpu": 50}))
    engine.put_quota("a", GroupSpec(name="a", parent="p", max={"cpu": 50}))
    engine.settle()
    monkeypatch.setattr("berth.quota_manager.core.engine.build", None)
    kept = engine.forest.groups["p"]
    engine.put_quota("a", GroupSpec(name="a", parent="q", max={"cpu": 50}))
    engine.put_quota("b", GroupSpec(name="b", parent="a", max={"cpu": 5}, namespaces=("ns",)))
    engine.book.put("pod", ClassKey("", "ns"), Claim((("cpu", 3),), True, False))
    settled = engine.settle()
    assert (engine.forest.groups["q"].used, kept.used) == ({"cpu": 3}, {})
    assert {"a", "b"} <= settled.shapes
    engine.remove_quota("b")
    engine.settle()
    assert engine.forest.groups["q"].used.get("cpu", 0) == 0
    assert engine.forest.groups["p"] is kept
