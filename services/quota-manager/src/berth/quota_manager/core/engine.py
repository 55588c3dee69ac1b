"""The quota figures of the whole cluster, kept up to date by differences.

News (a pod, a node, a quota) is only recorded; `settle` then brings the figures in order: sums climb from the touched
groups towards the roots and stop where nothing changed, runtimes are computed again on the levels whose inputs changed
and below. What it arrives at is what `solve` computes from scratch; the tests compare the two.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from berth.contracts.quota import QuotaRules
from berth.quota_manager.core.book import Book, Sums
from berth.quota_manager.core.forest import (
    DEFAULT_TREE,
    GROUPS_MAX,
    NAMES,
    Forest,
    Group,
    build,
    choose,
    place,
    replace_spec,
    set_totals,
    uproot,
)
from berth.quota_manager.core.group import NAMESPACES_MAX, GroupSpec, Problem
from berth.quota_manager.core.offered import Offered
from berth.quota_manager.core.payers import Payers
from berth.quota_manager.core.sharing import Row, effective_minimum, share
from berth.resources.amounts import Amounts, add, maximum, subtract_from, without_zeros
from berth.rules.quota_of_pod import (
    BUILT_IN_GROUPS,
    DEFAULT_GROUP,
    ROOT_GROUP,
    SYSTEM_GROUP,
    QuotaClaim,
    QuotaMap,
    claimed_by,
)
from berth.rules.quota_payer import payer_of

BUILT_IN: Final = BUILT_IN_GROUPS | {ROOT_GROUP}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The switches of the protocol that change figures. `charging` are those that solvers have to know; `unshared` are
    resources that only a max limits."""

    scales_min: bool = True
    guarantees_use: bool = False
    uses_runtime: bool = True
    charging: QuotaRules = field(default_factory=QuotaRules)
    unshared: frozenset[str] = frozenset()


@dataclass(slots=True)
class Settled:
    """What one round changed, by name of group.

    `limits` are those that may use something else now, whatever the reason. `shapes` are those whose object is another,
    that serve other namespaces, or that came, went or moved; `rebuilt`: all of them may have.
    """

    limits: set[str] = field(default_factory=set)
    figures: set[str] = field(default_factory=set)
    shapes: set[str] = field(default_factory=set)
    rebuilt: bool = False

    def __bool__(self) -> bool:
        return self.rebuilt or bool(self.limits) or bool(self.figures) or bool(self.shapes)


class Engine:
    """All groups of all trees. Not thread-safe; nothing here waits."""

    def __init__(self, rules: Rules | None = None) -> None:
        self.rules = rules or Rules()
        self.book = Book()
        self.forest: Forest = build(())
        self.map = QuotaMap((), uses_default=self.rules.charging.uses_default)
        self._specs: dict[str, GroupSpec] = {}
        self._keys_of: dict[str, set[str]] = {}
        self._changed: set[str] = set()
        self._payers = Payers()
        self._offered = Offered()
        self._is_stale = True
        self._rising: dict[int, dict[Group, None]] = {}
        self._sinking: dict[int, dict[Group, set[str]]] = {}
        self._settled = Settled()
        self._problems: list[Problem] | None = None

    # --- news --------------------------------------------------------------------------------------------------------

    def put_quota(self, key: str, spec: GroupSpec) -> None:
        """A quota was seen. The same spec again (only its status moved) costs nothing."""
        known = self._specs.get(key)
        if known == spec:
            return
        if known is not None:
            self.remove_quota(key)
        self._specs[key] = spec
        self._keys_of.setdefault(spec.name, set()).add(key)
        self._changed.add(spec.name)

    def spec_of(self, key: str) -> GroupSpec | None:
        """The spec last seen under a key."""
        return self._specs.get(key)

    def remove_quota(self, key: str) -> None:
        """A quota is gone."""
        spec = self._specs.pop(key, None)
        if spec is not None:
            keys = self._keys_of[spec.name]
            keys.discard(key)
            if not keys:
                del self._keys_of[spec.name]
            self._changed.add(spec.name)

    def put_node(self, name: str, allocatable: Mapping[str, int]) -> None:
        """A node was seen. Its allocatable feeds the total of the default tree, whether or not it is ready."""
        self._offered.put(name, allocatable)

    def remove_node(self, name: str) -> None:
        """A node is gone."""
        self._offered.remove(name)

    def reset(self) -> None:
        """Forgets everything that was seen."""
        self.book.clear()
        self._specs.clear()
        self._keys_of.clear()
        self._changed.clear()
        self._offered.clear()
        self._is_stale = True

    # --- answers -----------------------------------------------------------------------------------------------------

    def settle(self) -> Settled:
        """Brings all figures in order and says what changed since the last time."""
        if not (self._is_stale or self._changed or self._offered.has_moved or self.book.touched):
            return Settled()
        self._offered.has_moved = False
        changed, self._changed = self._changed, set()
        if self._is_stale or changed & BUILT_IN or len(self._keys_of) > GROUPS_MAX:
            self._rebuild()
        elif changed:
            self._change(changed)
        self._take_bookings()
        self._climb()
        self._set_totals()
        self._descend()
        settled, self._settled = self._settled, Settled()
        return settled

    def pods_of(self, name: str) -> tuple[int, int]:
        """How many pods a group has of its own, and how many of them have no node."""
        classes = [self.book.classes[key] for key in self._payers.classes_of(name)]
        return sum(each.pods for each in classes), sum(each.waiting for each in classes)

    def pods_naming(self, name: str) -> int:
        """How many pods name a group by their label, whoever pays for them."""
        return sum(self.book.classes[key].pods for key in self._payers.concerned((name,), ()) if key.label == name)

    @property
    def nodes(self) -> int:
        """How many nodes feed the default tree."""
        return len(self._offered)

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
        """Make everything anew: at the start, and where a built-in group is another."""
        self._is_stale = False
        self._problems = None
        specs = self._specs.values()
        self.forest = build(specs, self.rules.unshared)
        self.map = QuotaMap(
            (_claim_of(spec) for spec in specs if spec.name in self.forest.groups),
            uses_default=self.rules.charging.uses_default,
        )
        self.book.forget_idle()
        for pod_class in self.book.classes.values():
            pod_class.taken = Sums.empty()
        self.book.touched = set(self.book.classes)
        self._payers = Payers()
        self._rising.clear()
        self._sinking.clear()
        self._settled = Settled(rebuilt=True)
        for group in (*self.forest.roots.values(), *self.forest.groups.values()):
            self._begin(group)

    def _change(self, names: set[str]) -> None:
        """Change what these objects concern, and nothing else: the groups themselves, those below one that
        came, went or moved, and the levels that they leave and join."""
        forest = self.forest
        self._problems = None
        moving: set[str] = set()
        others: dict[str, GroupSpec] = {}
        chosen: dict[str, GroupSpec | None] = {}
        for name in names:
            spec, problems = choose(self._specs[key] for key in self._keys_of.get(name, ()))
            forest.note(NAMES, name, problems)
            known = forest.chosen.get(name)
            if spec is not None and known is not None and _place_of(spec) == _place_of(known):
                if spec != known:
                    others[name] = spec
                    chosen[name] = spec
            elif spec is not known:
                moving.add(name)
                chosen[name] = spec
        had_tops = forest.tops & chosen.keys()
        moving = forest.with_all_below(moving)
        for name, spec in chosen.items():
            forest.choose(name, spec)
        moving |= forest.with_all_below(moving)
        self._uproot(moving)
        for name in others.keys() - moving:
            self._replace(forest.groups[name], others[name])
        place(forest, moving & forest.chosen.keys())
        if moving or had_tops or forest.tops & chosen.keys():
            set_totals(forest)
        for name in moving & forest.groups.keys():
            group = forest.groups[name]
            self._begin(group)
            if group.parent is not None:
                self._sinks(group.parent, group.shared)
                self._rises(group.parent)
        self._settled.shapes |= names | moving
        self._settled.figures |= names | moving
        self._claim(names)
        self._settled.limits |= self._settled.shapes

    def _begin(self, group: Group) -> None:
        """All figures of a group are to be worked out."""
        self._guarantee(group)
        self._rises(group)
        self._sinks(group, group.sharers)
        if not group.is_root:
            self._settled.limits.add(group.name)
            self._settled.figures.add(group.name)
            self._settled.shapes.add(group.name)

    def _guarantee(self, group: Group) -> None:
        """What guarantees its use lends nothing."""
        group.guarantees = self.rules.guarantees_use or group.spec.guarantees
        group.lends = group.spec.lends and not group.guarantees

    def _uproot(self, names: set[str]) -> None:
        """Take groups away, with their figures from the sums above them."""
        for name in names & self.forest.groups.keys():
            group = self.forest.groups[name]
            parent = group.parent
            if parent is not None and (parent.is_root or parent.name not in names):
                for total, own in (
                    (parent.children_limited, group.limited),
                    (parent.children_guaranteed, group.guaranteed),
                    (parent.children_used, group.used),
                    (parent.children_np_request, group.np_request),
                    (parent.children_np_used, group.np_used),
                ):
                    _move(total, own, {})
                self._rises(parent)
                self._sinks(parent, group.shared)
            self._untake(name)
        uproot(self.forest, names)

    def _replace(self, group: Group, spec: GroupSpec) -> None:
        """Another spec of a group that stays where it is."""
        level = dict(group.shared)
        has_other_keys = group.spec.max.keys() != spec.max.keys()
        replace_spec(self.forest, group, spec)
        self._guarantee(group)
        if has_other_keys:
            self._untake(group.name)
            for own in (group.self_request, group.self_used, group.self_np_request, group.self_np_used):
                own.clear()
        group.has_new_spec = True
        self._rises(group)
        self._sinks(group, group.sharers)
        for child in group.children if has_other_keys else ():
            self._sinks(child, child.sharers)
            self._settled.shapes.add(child.name)
        if group.parent is not None:
            self._sinks(group.parent, level.keys() | group.shared.keys())

    def _untake(self, name: str) -> None:
        """What the classes of a group come to will be taken over once more."""
        for key in self._payers.classes_of(name):
            self.book.classes[key].taken = Sums.empty()
            self.book.touched.add(key)

    def _claim(self, names: set[str]) -> None:
        """Who pays for pods may be another where names or namespaces are claimed otherwise."""
        served: set[str] = set()
        for name in names:
            there = {spec.namespace: spec for spec in map(self._specs.__getitem__, self._keys_of.get(name, ()))}
            is_group = name in self.forest.groups
            before = self.map.claims_of(name)
            wanted = {namespace: _claim_of(spec) for namespace, spec in there.items() if is_group}
            for claim in before.values():
                if wanted.get(claim.namespace) != claim:
                    served |= claimed_by(claim)
                    self._settled.shapes |= self.map.drop(claim.name, claim.namespace)
            for namespace, claim in wanted.items():
                if before.get(namespace) != claim:
                    served |= claimed_by(claim)
                    self._settled.shapes |= self.map.put(claim)
        for key in self._payers.concerned(names, served):
            self.book.touched.add(key)

    def _take_bookings(self) -> None:
        touched, self.book.touched = self.book.touched, set()
        for key in sorted(touched):
            pod_class = self.book.classes.get(key)
            if pod_class is None:
                continue
            name = payer_of(self.map, key.paid, key.label, key.namespace)
            former = self._payers.put(key, name)
            if former != name and former is not None and former in self.forest.groups:
                self._book(self.forest.groups[former], pod_class.taken, -1)
                pod_class.taken = Sums.empty()
            if name is not None:
                self._book(self.forest.groups[name], pod_class.take(), 1)
            if not pod_class.pods:
                self._payers.drop(key)
                del self.book.classes[key]

    def _book(self, group: Group, difference: Sums, sign: int) -> None:
        ceiling = group.spec.max
        sums = (group.self_request, group.self_used, group.self_np_request, group.self_np_used)
        for total, amounts in zip(sums, difference, strict=True):
            for name, amount in amounts.items():
                if name in ceiling:
                    total[name] = total.get(name, 0) + sign * amount
        self._rises(group)

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
        group.allocated = {}
        if self.rules.guarantees_use or spec.guarantees:
            group.allocated = add(group.self_used, group.children_guaranteed)
            guaranteed = maximum(group.allocated, spec.min)
        old = (group.request, group.used, group.np_request, group.np_used, group.guaranteed)
        if (
            (request, used, np_request, np_used, guaranteed) == old
            and not group.is_root
            and group.limited
            and not group.has_new_spec
        ):
            if (group.child_request, group.allocated) != shown:  # its min hides them from all but its owner
                self._settled.figures.add(group.name)
            return
        group.has_new_spec = False
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
        total = dict(self._offered.total)
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
        children = parent.sharers.get(key)
        if not children:
            return
        total = parent.runtime.get(key, 0)
        promised, fixed, changed = parent.promised.get(key, 0), parent.fixed.get(key, 0), self._settled.limits
        is_scaled = self.rules.scales_min and key in parent.runtime and total < promised + fixed
        level: list[Row] = []
        for child in children:
            minimum = child.shared[key]
            if is_scaled and not child.spec.keeps_min:
                minimum = effective_minimum(total - fixed, minimum, promised=promised)
            if child.effective_min.get(key, 0) != minimum and key in child.spec.min:
                child.effective_min[key] = minimum
                changed.add(child.name)
            asked, guaranteed = child.limited.get(key, 0), child.guaranteed.get(key, 0)
            level.append((child.name, child.weight.get(key, 0), asked, minimum, guaranteed, child.lends))
        runtime = share(total, level)
        for child in children:
            name, runtimes = child.name, child.runtime
            amount = runtime[name]
            if runtimes.get(key) != amount:
                runtimes[key] = amount
                changed.add(name)
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


def _place_of(spec: GroupSpec) -> tuple[str, str, str]:
    return spec.parent, spec.tree, spec.namespace


def _claim_of(spec: GroupSpec) -> QuotaClaim:
    return QuotaClaim(spec.name, spec.namespace, spec.namespaces[:NAMESPACES_MAX])
