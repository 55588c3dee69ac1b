"""Trees of quotas that have a pool of nodes: pods that they pay for are placed in the pool (I32).

A pool is what the profile of the tree selects. What changes of it, or of a node's labels, counts once everybody can
have seen it; who was placed before stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from berth.contracts import names
from berth.contracts.kube import LabelSelector
from berth.contracts.ledger import Decision
from berth.invariants.observer.calm import NEVER
from berth.invariants.observer.sight import Reader, Sight
from berth.invariants.observer.verdicts import Verdicts

LAW = "I32"
Labels = Mapping[str, str]


class Pool(NamedTuple):
    """The profile of a tree."""

    owner: tuple[str, str]
    tree: str
    selector: LabelSelector | None


class Pools:
    """Which nodes are out of which tree's pool, and since when."""

    def __init__(self, verdicts: Verdicts, sight: Sight) -> None:
        self._verdicts = verdicts
        self._sight = sight
        self._labels: dict[str, Labels] = {}
        self._profiles: dict[tuple[str, str], Pool] = {}
        self._out_s: dict[tuple[str, str], float] = {}
        """By tree and node: since when it is not in the pool."""

    def see_node(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A node and its labels."""
        name = data["metadata"]["name"]
        if deleted:
            self._labels.pop(name, None)
            for key in [key for key in self._out_s if key[1] == name]:
                del self._out_s[key]
            return
        labels = data["metadata"].get("labels") or {}
        if self._labels.get(name) != labels:
            self._labels[name] = labels
            for tree in {pool.tree for pool in self._profiles.values()}:
                self._renew(tree, name)

    def see_profile(self, data: Mapping[str, Any], deleted: bool) -> None:
        """An ElasticQuotaProfile."""
        meta = data["metadata"]
        owner = (meta.get("namespace") or "", meta["name"])
        before = self._profiles.pop(owner, None)
        if not deleted:
            tree = (meta.get("labels") or {}).get(names.LABEL_QUOTA_TREE) or _hash("/".join(owner))
            selector = (data.get("spec") or {}).get("nodeSelector")
            read = None if selector is None else msgspec.convert(selector, LabelSelector)
            self._profiles[owner] = Pool(owner, tree, read)
        for changed in {each.tree for each in (before, self._profiles.get(owner)) if each is not None}:
            for node in self._labels:
                self._renew(changed, node)

    def decided(self, decision: Decision) -> None:
        """A node was given to whom a tree pays for."""
        tree, _, group = decision.quota.rpartition("/")
        if not tree:
            return
        since_s = self._out_s.get((tree, decision.node), NEVER)
        if since_s == NEVER:
            self._verdicts.judged(LAW)
        elif not self._sight.has_seen(Reader.QUOTA, since_s) or not self._sight.has_seen(Reader.SOLVER, since_s):
            self._verdicts.excused(LAW, self._sight.excuse(since_s))
        else:
            self._verdicts.judged(LAW)
            who = f"{decision.namespace}/{decision.name}"
            text = f"{who}: quota {group} of tree {tree} pays, whose pool {decision.node} is not in"
            self._verdicts.add(LAW, f"{who}, plan {decision.plan}", text)

    def _renew(self, tree: str, node: str) -> None:
        """Whether the node is out of the tree's pool by now."""
        pools = [pool for pool in self._profiles.values() if pool.tree == tree]
        is_out = bool(pools) and not _selects(min(pools, key=lambda pool: pool.owner).selector, self._labels[node])
        if not is_out:
            self._out_s.pop((tree, node), None)
        else:
            self._out_s.setdefault((tree, node), self._sight.now_s)


_HOLDS: Mapping[str, Callable[[str | None, list[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: bool(values) and value not in values,
    "Exists": lambda value, values: value is not None and not values,
    "DoesNotExist": lambda value, values: value is None and not values,
}


def _selects(selector: LabelSelector | None, labels: Labels) -> bool:
    """Whether pods of the tree may go to such a node: anywhere where the profile has no selector at all."""
    if selector is None:
        return True
    if any(labels.get(key) != value for key, value in (selector.match_labels or {}).items()):
        return False
    return all(
        each.operator in _HOLDS and _HOLDS[each.operator](labels.get(each.key), each.values or [])
        for each in selector.match_expressions or ()
    )


def _hash(text: str) -> str:
    """FNV-1a of 64 bits."""
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return str(value)
