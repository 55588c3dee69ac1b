"""The quota figures of the whole cluster, kept up to date by differences.

News (a pod, a node, a quota) is only recorded; `settle` then brings the figures in order: sums climb from the touched
groups towards the roots and stop where nothing changed, runtimes are computed again on the levels whose inputs changed
and below. What it arrives at is what `solve` computes from scratch; the tests compare the two.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from berth.quota_manager.core.book import Book, ClassKey
from berth.quota_manager.core.forest import DEFAULT_TREE, Forest, Group, build
from berth.quota_manager.core.group import NAMESPACES_MAX, GroupSpec, Problem
from berth.quota_manager.core.sharing import Child, effective_minimum, share
from berth.resources.amounts import Amounts, add, add_into, maximum, subtract_from, without_zeros
from berth.rules.quota_of_pod import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP, QuotaClaim, QuotaMap


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The switches of the protocol that change figures."""

    scales_min: bool = True
    guarantees_use: bool = False
    uses_default: bool = True
    uses_runtime: bool = True


@dataclass(slots=True)
class Settled:
    """What one round changed, by name of group. `rebuilt` says that groups may have come, gone or moved."""

    limits: set[str] = field(default_factory=set)
    figures: set[str] = field(default_factory=set)
    rebuilt: bool = False

    def __bool__(self) -> bool:
        return self.rebuilt or bool(self.limits) or bool(self.figures)


class Engine:
    """All groups of all trees. Not thread-safe; nothing here waits."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.book = Book()
        self.forest: Forest = build(())
        self.map = QuotaMap.of_claims((), uses_default=self.rules.uses_default)
        self._specs: dict[str, GroupSpec] = {}
        self._nodes: dict[str, Amounts] = {}
        self._node_total: Amounts = {}
        self._nodes_naming: dict[str, int] = {}
        self._nodes_moved = False
        self._is_stale = True
        self._rising: dict[int, dict[Group, None]] = {}
        self._sinking: dict[int, dict[Group, set[str]]] = {}
        self._settled = Settled()
        self._problems: list[Problem] | None = None

    # --- news --------------------------------------------------------------------------------------------------------

    def put_quota(self, key: str, spec: GroupSpec) -> None:
        """A quota was seen. The same spec again (only its status moved) costs nothing."""
        if self._specs.get(key) != spec:
            self._specs[key] = spec
            self._is_stale = True

    def spec_of(self, key: str) -> GroupSpec | None:
        """The spec last seen under a key."""
        return self._specs.get(key)

    def remove_quota(self, key: str) -> None:
        """A quota is gone."""
        if self._specs.pop(key, None) is not None:
            self._is_stale = True

    def put_node(self, name: str, allocatable: Mapping[str, int]) -> None:
        """A node was seen. Its allocatable feeds the total of the default tree, whether or not it is ready."""
        amounts = {key: max(0, amount) for key, amount in allocatable.items()}
        if self._nodes.get(name) != amounts:
            self.remove_node(name)
            self._nodes[name] = amounts
            self._nodes_moved = True
            add_into(self._node_total, amounts)
            for key in amounts:
                self._nodes_naming[key] = self._nodes_naming.get(key, 0) + 1

    def remove_node(self, name: str) -> None:
        """A node is gone."""
        amounts = self._nodes.pop(name, None)
        if amounts is None:
            return
        self._nodes_moved = True
        subtract_from(self._node_total, amounts)
        for key in amounts:
            self._nodes_naming[key] -= 1
            if not self._nodes_naming[key]:
                del self._nodes_naming[key], self._node_total[key]

    def reset(self) -> None:
        """Forgets everything that was seen."""
        self.book.clear()
        self._specs.clear()
        self._nodes.clear()
        self._node_total.clear()
        self._nodes_naming.clear()
        self._is_stale = True

    # --- answers -----------------------------------------------------------------------------------------------------

    def settle(self) -> Settled:
        """Brings all figures in order and says what changed since the last time."""
        if not (self._is_stale or self._nodes_moved or self.book.touched):
            return Settled()
        self._nodes_moved = False
        if self._is_stale:
            self._rebuild()
        self._take_bookings()
        self._climb()
        self._set_totals()
        self._descend()
        settled, self._settled = self._settled, Settled()
        return settled

    @property
    def nodes(self) -> int:
        """How many nodes feed the default tree."""
        return len(self._nodes)

    def problems(self) -> list[Problem]:
        """What is wrong now, with the object and field to repair. The same list until it may have changed."""
        if self._problems is not None:
            return self._problems
        found = self._problems = list(self.forest.problems)
        for key, amount in sorted(self.forest.roots[DEFAULT_TREE].runtime.items()):
            if amount < 0:
                message = f"separate trees and default pods take {-amount} more than all nodes offer"
                found.append(Problem(ROOT_GROUP, f"total[{key}]", message))
        return found

    # --- the round ---------------------------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        self._is_stale = False
        self._problems = None
        specs = self._specs.values()
        self.forest = build(specs)
        claims = (
            QuotaClaim(spec.name, spec.namespace, spec.namespaces[:NAMESPACES_MAX])
            for spec in specs
            if spec.name in self.forest.groups
        )
        self.map = QuotaMap.of_claims(claims, uses_default=self.rules.uses_default)
        self.book.forget_idle()
        for pod_class in self.book.classes.values():
            pod_class.forget_taken()
        self.book.touched = set(self.book.classes)
        self._rising.clear()
        self._sinking.clear()
        self._settled = Settled(rebuilt=True, limits=set(self.forest.groups), figures=set(self.forest.groups))
        for group in (*self.forest.roots.values(), *self.forest.groups.values()):
            if self.rules.guarantees_use:
                group.guarantees, group.lends = True, False
            self._rises(group)
            self._sinks(group, group.sharers)

    def _take_bookings(self) -> None:
        touched, self.book.touched = self.book.touched, set()
        for key in sorted(touched):
            group = self._group_of(key)
            pod_class = self.book.classes.get(key)
            if pod_class is None or group is None:
                continue
            ceiling = group.spec.max
            pods, waiting = pod_class.take_counts()
            group.pods += pods
            group.waiting += waiting
            sums = (group.self_request, group.self_used, group.self_np_request, group.self_np_used)
            for total, difference in zip(sums, pod_class.take(), strict=True):
                for name, amount in difference.items():
                    if name in ceiling:
                        total[name] = total.get(name, 0) + amount
            self._rises(group)

    def _group_of(self, key: ClassKey) -> Group | None:
        label, namespace = key
        name = self.map.group_of(label, namespace)
        return None if name is None else self.forest.groups[name]

    def _rises(self, group: Group) -> None:
        self._rising.setdefault(group.depth, {})[group] = None

    def _sinks(self, parent: Group, keys: Iterable[str]) -> None:
        self._sinking.setdefault(parent.depth, {}).setdefault(parent, set()).update(keys)

    def _climb(self) -> None:
        while self._rising:
            for group in self._rising.pop(max(self._rising)):
                self._refigure(group)

    def _refigure(self, group: Group) -> None:
        """Adds up one group again and hands the differences to its parent."""
        spec, parent = group.spec, group.parent
        shown = (group.child_request, group.allocated)
        group.child_request = add(group.self_request, group.children_limited)
        request = group.child_request if group.lends else maximum(group.child_request, spec.min)
        used = add(group.self_used, group.children_used)
        np_request = add(group.self_np_request, group.children_np_request)
        np_used = add(group.self_np_used, group.children_np_used)
        guaranteed = dict(group.children_guaranteed)  # what is guaranteed below has to be there
        if group.guarantees:
            group.allocated = add(group.self_used, group.children_guaranteed)
            guaranteed = maximum(group.allocated, spec.min)
        old = (group.request, group.used, group.np_request, group.np_used, group.guaranteed)
        if (request, used, np_request, np_used, guaranteed) == old and not group.is_root and group.limited:
            if (group.child_request, group.allocated) != shown:  # its min hides them from all but its owner
                self._settled.figures.add(group.name)
            return
        limited = {key: min(request.get(key, 0), limit) for key, limit in spec.max.items()}
        self._settled.figures.add(group.name)
        if parent is not None:
            asks_otherwise = _move(parent.children_limited, group.limited, limited)
            asks_otherwise |= _move(parent.children_guaranteed, group.guaranteed, guaranteed)
            moved = bool(asks_otherwise)
            moved |= bool(_move(parent.children_used, group.used, used))
            moved |= bool(_move(parent.children_np_request, group.np_request, np_request))
            moved |= bool(_move(parent.children_np_used, group.np_used, np_used))
            if moved:
                self._rises(parent)
            if asks_otherwise and not group.is_built_in and not group.is_detached:
                self._sinks(parent, asks_otherwise & parent.sharers.keys())
        group.request, group.limited, group.used = request, limited, used
        group.np_request, group.np_used, group.guaranteed = np_request, np_used, guaranteed

    def _set_totals(self) -> None:
        for tree, root in self.forest.roots.items():
            total = self._default_total() if tree == DEFAULT_TREE else self.forest.totals.get(tree, {})
            if total != root.runtime:
                changed = {key for key in total.keys() | root.runtime.keys() if total.get(key) != root.runtime.get(key)}
                root.runtime = dict(total)
                self._problems = None
                self._sinks(root, changed & root.sharers.keys())

    def _default_total(self) -> Amounts:
        total = dict(self._node_total)
        for name in (SYSTEM_GROUP, DEFAULT_GROUP):
            subtract_from(
                total, without_zeros(self.forest.groups[name].used)
            )  # a sum that came back to 0 names nothing
        for withheld in self.forest.withheld.values():
            subtract_from(total, withheld)
        return total

    def _descend(self) -> None:
        while self._sinking:
            for parent, keys in self._sinking.pop(min(self._sinking)).items():
                for key in sorted(keys):
                    self._share_out(parent, key)

    def _share_out(self, parent: Group, key: str) -> None:
        """Computes one resource of one level again."""
        children = parent.sharers[key]
        total = parent.runtime.get(key, 0)
        promised = parent.promised[key]
        is_scaled = self.rules.scales_min and key in parent.runtime and total < promised
        level: list[Child] = []
        for child in children:
            minimum = child.spec.min.get(key, 0)
            if is_scaled:
                minimum = effective_minimum(total, minimum, promised=promised)
            if key in child.spec.min and child.effective_min.get(key) != minimum:
                child.effective_min[key] = minimum
                self._settled.limits.add(child.name)
            level.append(
                Child(
                    child.name,
                    child.weight.get(key, 0),
                    child.limited.get(key, 0),
                    minimum,
                    child.guaranteed.get(key, 0),
                    child.lends,
                )
            )
        runtime = share(total, level)
        for child in children:
            amount = runtime[child.name]
            if child.runtime.get(key) != amount:
                child.runtime[key] = amount
                self._settled.limits.add(child.name)
                if key in child.sharers:
                    self._sinks(child, (key,))


def _move(total: Amounts, old: Amounts, new: Amounts) -> set[str]:
    """Replaces `old` by `new` within a sum; returns the resources that differ."""
    if old == new:
        return set()
    changed = {key for key in old.keys() | new.keys() if old.get(key, 0) != new.get(key, 0)}
    for key in sorted(changed):
        total[key] = total.get(key, 0) + new.get(key, 0) - old.get(key, 0)
    return changed
