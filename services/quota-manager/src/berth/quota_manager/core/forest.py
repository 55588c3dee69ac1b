"""The quota trees as linked groups, built from whatever objects exist.

Several trees stand side by side, each below a root of its own. A group that cannot be placed (unknown parent, a cycle,
parents too deep, a parent of another tree) is *detached*, with all that hangs below it: it stays known, so that its
pods are not handed to the default group in silence, and its runtime is 0 until its author has repaired it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from berth.contracts import names
from berth.quota_manager.core.group import GroupSpec, Problem, bounded, weights_of
from berth.resources.amounts import Amounts
from berth.resources.quantity import AMOUNT_MAX
from berth.rules.bounded_json import label_field
from berth.rules.quota_of_pod import BUILT_IN_GROUPS, DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP

DEFAULT_TREE: Final = ""
DEPTH_MAX: Final = 16
GROUPS_MAX: Final = 10_000
NAME_LENGTH_MAX: Final = 253

PARENT: Final = label_field(names.LABEL_QUOTA_PARENT)
TREE: Final = label_field(names.LABEL_QUOTA_TREE)


class Group:
    """One group and its present figures. `parent` is None for a root and for the top of a detached part."""

    __slots__ = (
        "allocated",
        "child_request",
        "children",
        "children_guaranteed",
        "children_limited",
        "children_np_request",
        "children_np_used",
        "children_used",
        "depth",
        "effective_min",
        "guaranteed",
        "guarantees",
        "is_built_in",
        "is_detached",
        "is_root",
        "lends",
        "limited",
        "name",
        "np_request",
        "np_used",
        "parent",
        "pods",
        "promised",
        "request",
        "runtime",
        "self_np_request",
        "self_np_used",
        "self_request",
        "self_used",
        "sharers",
        "spec",
        "tree",
        "used",
        "waiting",
        "weight",
    )

    def __init__(self, spec: GroupSpec, tree: str, *, is_root: bool = False) -> None:
        self.spec = spec
        self.name = spec.name
        self.tree = tree
        self.parent: Group | None = None
        self.children: list[Group] = []
        self.depth = 0
        self.is_root = is_root
        self.is_built_in = spec.name in BUILT_IN_GROUPS
        self.is_detached = False
        self.guarantees = spec.guarantees
        self.lends = spec.lends and not spec.guarantees
        self.weight = weights_of(spec)
        self.sharers: dict[str, list[Group]] = {}
        """Resource -> the children that take part in sharing it, by name. Its keys are the dimensions of the level."""
        self.promised: Amounts = {}
        """Resource -> the sum of the mins of those children."""
        self.pods = 0
        self.waiting = 0
        """Pods of its own, and those of them that have no node."""
        self.self_request: Amounts = {}
        self.self_used: Amounts = {}
        self.self_np_request: Amounts = {}
        self.self_np_used: Amounts = {}
        self.children_limited: Amounts = {}
        self.children_used: Amounts = {}
        self.children_np_request: Amounts = {}
        self.children_np_used: Amounts = {}
        self.children_guaranteed: Amounts = {}
        self.child_request: Amounts = {}
        """What its own pods and its children (each cut to its max) ask for."""
        self.request: Amounts = {}
        self.limited: Amounts = {}
        self.used: Amounts = {}
        self.np_request: Amounts = {}
        self.np_used: Amounts = {}
        self.allocated: Amounts = {}
        self.guaranteed: Amounts = {}
        self.effective_min: Amounts = {}
        self.runtime: Amounts = {}

    def ancestors(self) -> Iterator["Group"]:
        """The groups above, nearest first, without the root."""
        above = self.parent
        while above is not None and not above.is_root:
            yield above
            above = above.parent


@dataclass(slots=True)
class Forest:
    """All trees. `groups` holds every group but the roots, by name."""

    roots: dict[str, Group] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    totals: dict[str, Amounts] = field(default_factory=dict)
    """The total of every separate tree."""
    withheld: dict[str, Amounts] = field(default_factory=dict)
    """Of those, the ones that the default tree has to do without."""


def build(specs: Iterable[GroupSpec]) -> Forest:
    """The forest of these objects. Depends on the set of objects alone, never on their order."""
    forest = Forest()
    chosen = _one_per_name(specs, forest.problems)
    _plant_default_tree(forest, chosen)
    for name in sorted(chosen):
        spec = chosen[name]
        forest.groups[name] = Group(spec, _tree_of(spec, chosen))
    for name in sorted(chosen):
        _attach(forest.groups[name], forest)
    _cut_cycles(forest)
    _measure(forest)
    _set_totals(forest, chosen)
    _find_sharers(forest)
    _check_promises(forest)
    return forest


def _one_per_name(specs: Iterable[GroupSpec], problems: list[Problem]) -> dict[str, GroupSpec]:
    chosen: dict[str, GroupSpec] = {}
    for spec in sorted(specs, key=lambda spec: (spec.name, spec.namespace)):
        if spec.name in chosen:
            message = f"{chosen[spec.name].object} has the same name and is used; names are unique in the cluster"
            problems.append(Problem(spec.object, "metadata.name", message))
        elif not (_is_usable(spec.name) and _is_usable(spec.tree)):
            owner = ascii(spec.object)[: 2 * NAME_LENGTH_MAX]
            problems.append(
                Problem(owner, "metadata.name", "its name or tree id is no Kubernetes name; it is not used")
            )
        elif len(chosen) >= GROUPS_MAX:
            problems.append(Problem(spec.object, "metadata.name", f"more than {GROUPS_MAX} quotas; it is not used"))
        else:
            held, found = bounded(spec)
            if spec.name not in BUILT_IN_GROUPS:  # their ceilings are beyond 64 bits by design
                problems.extend(found)
            chosen[spec.name] = held
    return chosen


def _is_usable(name: str) -> bool:
    """Fit to become part of a key."""
    return name.isascii() and len(name) <= NAME_LENGTH_MAX


def _plant_default_tree(forest: Forest, chosen: dict[str, GroupSpec]) -> None:
    root_spec = chosen.pop(ROOT_GROUP, GroupSpec(name=ROOT_GROUP))
    root = forest.roots[DEFAULT_TREE] = Group(root_spec, DEFAULT_TREE, is_root=True)
    for name in (SYSTEM_GROUP, DEFAULT_GROUP):
        given = chosen.pop(name, None)
        ceiling = {"cpu": AMOUNT_MAX, "memory": AMOUNT_MAX} | (given.max if given else {})
        group = Group(GroupSpec(name=name, namespace=given.namespace if given else "", max=ceiling), DEFAULT_TREE)
        group.parent = root
        group.runtime = dict(ceiling)
        root.children.append(group)
        forest.groups[name] = group


def _tree_of(spec: GroupSpec, chosen: dict[str, GroupSpec]) -> str:
    """The tree that the group names, else that of the nearest group above which names one."""
    current: GroupSpec | None = spec
    for _ in range(DEPTH_MAX + 1):
        if current is None or current.tree:
            break
        current = chosen.get(current.parent)
    return current.tree if current is not None else DEFAULT_TREE


def _attach(group: Group, forest: Forest) -> None:
    """Hangs the group below its parent, or reports why it cannot."""
    spec = group.spec
    if not spec.parent or spec.parent == ROOT_GROUP:
        root = forest.roots.get(group.tree)
        if root is None:
            root = forest.roots[group.tree] = Group(GroupSpec(name=ROOT_GROUP), group.tree, is_root=True)
        group.parent = root
        root.children.append(group)
        return
    above = forest.groups.get(spec.parent)
    if above is None:
        _detach(group, PARENT, f"quota {spec.parent!r} does not exist", forest)
    elif above.is_built_in:
        _detach(group, PARENT, f"{above.name} cannot have children", forest)
    elif above.tree != group.tree:
        _detach(group, TREE, f"differs from the tree of its parent ({above.tree!r})", forest)
    else:
        group.parent = above
        above.children.append(group)
        _compare_with_parent(spec, above.spec, forest.problems)


def _detach(group: Group, field: str, message: str, forest: Forest) -> None:
    group.is_detached = True
    forest.problems.append(Problem(group.spec.object, field, message))


def _compare_with_parent(spec: GroupSpec, above: GroupSpec, problems: list[Problem]) -> None:
    if not above.is_parent:
        problems.append(Problem(spec.object, PARENT, f"{above.name!r} is not labelled is-parent; it is treated as one"))
    for key in sorted(spec.max.keys() - above.max.keys()):
        message = "is not named by the parent, which has nothing of it to share; only this max limits it"
        problems.append(Problem(spec.object, f"spec.max[{key}]", message))


def _cut_cycles(forest: Forest) -> None:
    """Detaches every group that is its own ancestor; what hangs below such groups stays below them."""
    walk_of: dict[str, str] = {}
    for name in sorted(forest.groups):
        group: Group | None = forest.groups[name]
        while group is not None and not group.is_root and group.name not in walk_of:
            walk_of[group.name] = name
            group = group.parent
        if group is None or group.is_root or walk_of[group.name] != name:
            continue
        members = [group]
        while (above := members[-1].parent) is not None and above is not group:
            members.append(above)
        for member in members:
            if member.parent is not None:
                member.parent.children.remove(member)
                member.parent = None
            _detach(member, PARENT, "leads back to the quota itself", forest)


def _measure(forest: Forest) -> None:
    """Depths from the roots; what no root reaches, or only over too many steps, is detached."""
    tops = [group for group in forest.groups.values() if group.parent is None]
    queue = [*forest.roots.values(), *tops]
    for group in queue:  # grows while it is walked
        for child in group.children:
            child.depth = group.depth + 1
            child.is_detached = child.is_detached or group.is_detached
            if child.depth > DEPTH_MAX and not child.is_detached:
                _detach(child, PARENT, f"more than {DEPTH_MAX} quotas above each other", forest)
            queue.append(child)


def _set_totals(forest: Forest, chosen: dict[str, GroupSpec]) -> None:
    for name in sorted(chosen):
        spec = chosen[name]
        tree = forest.groups[name].tree
        if not spec.is_root or spec.total is None:
            continue
        if tree == DEFAULT_TREE:
            forest.problems.append(Problem(spec.object, TREE, "is empty, but the quota is the top of a separate tree"))
        elif tree in forest.totals:
            message = f"tree {tree!r} has another top already; this total is not used"
            forest.problems.append(Problem(spec.object, label_field(names.LABEL_QUOTA_IS_ROOT), message))
        else:
            forest.totals[tree] = spec.total
            if not spec.ignores_default_tree:
                forest.withheld[tree] = spec.total
    for tree, root in sorted(forest.roots.items()):
        if tree != DEFAULT_TREE and tree not in forest.totals:
            top = min(root.children, key=lambda group: group.name)
            message = f"tree {tree!r} has no quota with is-root and total-resource, so it has nothing to share"
            forest.problems.append(Problem(top.spec.object, TREE, message))


def _find_sharers(forest: Forest) -> None:
    keys: dict[str, set[str]] = {tree: set() for tree in forest.roots}
    for group in forest.groups.values():
        if not group.is_built_in and not group.is_detached:
            keys[group.tree].update(group.spec.max)
    for parent in (*forest.roots.values(), *forest.groups.values()):
        level = keys[parent.tree] if parent.is_root else parent.spec.max.keys()
        for child in sorted(parent.children, key=lambda child: child.name):
            if not child.is_built_in and not child.is_detached:
                for key in sorted(child.spec.max.keys() & level):
                    parent.sharers.setdefault(key, []).append(child)
                    parent.promised[key] = parent.promised.get(key, 0) + child.spec.min.get(key, 0)
    for group in forest.groups.values():
        if not group.is_built_in:
            group.effective_min = dict(group.spec.min)
            group.runtime = dict.fromkeys(group.spec.max, 0) if group.is_detached else {}


def _check_promises(forest: Forest) -> None:
    """Children promised more than their parent was: nothing breaks, but the promises cannot all be kept."""
    for parent in forest.groups.values():
        if parent.is_built_in or parent.spec.is_root or not parent.children:
            continue
        promised: Amounts = {}
        for child in parent.children:
            if not child.spec.is_forced:
                for key, amount in child.spec.min.items():
                    promised[key] = promised.get(key, 0) + amount
        for key in sorted(promised):
            have = parent.spec.min.get(key, 0)
            if promised[key] > have:
                message = f"the minimums of its children add up to {promised[key]}, above its own {have}"
                forest.problems.append(Problem(parent.spec.object, f"spec.min[{key}]", message))
