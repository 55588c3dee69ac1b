"""ElasticQuotaProfiles and the nodes they select: kept up to date node by node, profile by profile.

A change of a node costs a look at each profile, one of a profile a look at each node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from berth.contracts.kube import Requirement
from berth.contracts.names import LABEL_QUOTA_TREE
from berth.contracts.state import ElasticQuotaProfile
from berth.quota_manager.core.group import Problem
from berth.resources.amounts import Amounts, add_into, subtract_from, without_zeros
from berth.rules.quota_trees import SELECTOR, Profile, RootQuota, profile_of_tree, read_profile, root_quota


def _meaning(seen: ElasticQuotaProfile) -> ElasticQuotaProfile:
    """The profile without what changes although nothing else does."""
    return msgspec.structs.replace(seen, version=0, uid="")


class NodeOfPool(NamedTuple):
    """A node as profiles see it."""

    labels: Mapping[str, str]
    allocatable: Amounts
    takes_pods: bool
    """Neither cordoned nor not ready."""


class Root(NamedTuple):
    """A profile with what its root quota has to say."""

    uid: str
    profile: Profile
    quota: RootQuota
    names_tree: bool
    """The profile's own label says which tree is its."""


class _Pool:
    """A profile, its nodes and their sums."""

    def __init__(self, seen: ElasticQuotaProfile) -> None:
        self.seen = seen
        self.profile = read_profile(seen)
        self.nodes: set[str] = set()
        self.total: Amounts = {}
        self.idle: Amounts = {}
        """Of the nodes that take no pods now."""


class Profiles:
    """All profiles. `changed` says that a tree may have other nodes than before; the reader resets it."""

    def __init__(self) -> None:
        self.changed = False
        self._pools: dict[str, _Pool] = {}
        self._nodes: dict[str, NodeOfPool] = {}
        self._problems: list[Problem] | None = []

    def __len__(self) -> int:
        return len(self._pools)

    def put(self, key: str, seen: ElasticQuotaProfile) -> None:
        """A profile was seen."""
        known = self._pools.get(key)
        if known is not None and _meaning(known.seen) == _meaning(seen):
            known.seen = seen
            return
        pool = self._pools[key] = _Pool(seen)
        for name, node in self._nodes.items():
            self._count(pool, name, node)
        self.changed = True
        self._problems = None

    def remove(self, key: str) -> None:
        """A profile is gone. Its root quota stays, since its author may have built on it."""
        if self._pools.pop(key, None) is not None:
            self.changed = True
            self._problems = None

    def put_node(self, name: str, node: NodeOfPool) -> None:
        """A node was seen."""
        known = self._nodes.get(name)
        if known == node:
            return
        self._discount(name)
        self._nodes[name] = node
        for pool in self._pools.values():
            self._count(pool, name, node)
        if known is None or known.labels != node.labels:
            self._problems = None

    def remove_node(self, name: str) -> None:
        """A node is gone."""
        self._discount(name)
        if self._nodes.pop(name, None) is not None:
            self._problems = None

    def reset(self) -> None:
        """Forgets everything that was seen."""
        self._pools.clear()
        self._nodes.clear()
        self._problems = []
        self.changed = True

    def roots(self) -> Iterator[Root]:
        """The root quotas to be, one for each quota name: of two profiles that name one, the first by name has it."""
        for pool in self._makers().values():
            quota = root_quota(pool.profile, without_zeros(pool.total), without_zeros(pool.idle))
            yield Root(pool.seen.uid, pool.profile, quota, names_tree=bool(pool.seen.labels.get(LABEL_QUOTA_TREE)))

    def requirements(self) -> dict[str, list[Requirement]]:
        """What nodes have to be labelled so that pods of a tree may go there, for each tree that has a profile."""
        profiles = [pool.profile for pool in self._pools.values()]
        found: dict[str, list[Requirement]] = {}
        for tree in sorted({profile.tree for profile in profiles}):
            chosen = profile_of_tree(tree, profiles)
            if chosen is not None and chosen.requirements:
                found[tree] = list(chosen.requirements)
        return found

    def problems(self) -> list[Problem]:
        """What is wrong with profiles; the same list until it may have changed."""
        if self._problems is None:
            self._problems = list(self._find_problems())
        return self._problems

    def _find_problems(self) -> Iterator[Problem]:
        profiles = [pool.profile for pool in self._pools.values()]
        makers = self._makers()
        for key in sorted(self._pools):
            pool = self._pools[key]
            profile = pool.profile
            where = f"{profile.namespace}/{profile.name}"
            for problem in profile.problems:
                yield Problem(where, problem.field, problem.message)
            maker = makers.get((profile.namespace, profile.quota))
            if maker is not None and maker is not pool:
                yield Problem(where, "spec.quotaName", f"profile {maker.profile.name!r} makes this quota already")
            first = profile_of_tree(profile.tree, profiles)
            if first is not None and first is not profile:
                message = f"profile {first.namespace}/{first.name} has this tree already, and says which nodes are its"
                yield Problem(where, f"metadata.labels[{LABEL_QUOTA_TREE}]", message)
            for other in (self._pools[each] for each in sorted(self._pools)):
                if other is not pool and not pool.nodes.isdisjoint(other.nodes):
                    message = f"selects nodes that profile {other.profile.name!r} selects too; they count in both trees"
                    yield Problem(where, SELECTOR, message)

    def _makers(self) -> dict[tuple[str, str], _Pool]:
        makers: dict[tuple[str, str], _Pool] = {}
        for pool in sorted(self._pools.values(), key=lambda each: each.profile[:2]):
            if pool.profile.is_usable and not pool.seen.deleting:
                makers.setdefault((pool.profile.namespace, pool.profile.quota), pool)
        return makers

    def _count(self, pool: _Pool, name: str, node: NodeOfPool) -> None:
        if pool.profile.selector.matches(node.labels):
            pool.nodes.add(name)
            add_into(pool.total, node.allocatable)
            if not node.takes_pods:
                add_into(pool.idle, node.allocatable)

    def _discount(self, name: str) -> None:
        node = self._nodes.get(name)
        for pool in self._pools.values() if node is not None else ():
            if node is not None and name in pool.nodes:
                pool.nodes.discard(name)
                subtract_from(pool.total, node.allocatable)
                if not node.takes_pods:
                    subtract_from(pool.idle, node.allocatable)
