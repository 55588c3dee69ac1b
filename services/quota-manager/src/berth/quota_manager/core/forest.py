"""The quota trees as linked groups, built from whatever objects exist, and changed group by group.

Several trees stand side by side, each below a root of its own. A group that cannot be placed (unknown parent, a cycle,
parents too deep, a parent of another tree) is *detached*, with all that hangs below it: it stays known, so that its
pods are not handed to the default group in silence, and its runtime is 0 until its author has repaired it.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
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

NAMES: Final = "names"
PLACES: Final = "places"
PARENTS: Final = "parents"
PROMISES: Final = "promises"
TOTALS: Final = "totals"
STAGES: Final = (NAMES, PLACES, PARENTS, PROMISES, TOTALS)
"""What is looked at of a group, one after the other."""

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
        "fixed",
        "guaranteed",
        "guarantees",
        "has_new_spec",
        "is_built_in",
        "is_detached",
        "is_root",
        "lends",
        "limited",
        "name",
        "np_request",
        "np_used",
        "parent",
        "promised",
        "request",
        "runtime",
        "self_np_request",
        "self_np_used",
        "self_request",
        "self_used",
        "shared",
        "sharers",
        "spec",
        "tree",
        "used",
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
        self.has_new_spec = False
        """Its figures are to be worked out even where its sums are as before."""
        self.guarantees = spec.guarantees
        self.lends = spec.lends
        self.weight = weights_of(spec)
        self.sharers: dict[str, list[Group]] = {}
        """Resource -> the children that take part in sharing it, by name. Its keys are the dimensions of the level."""
        self.promised: Amounts = {}
        """Resource -> the sum of the mins of those children that may be scaled."""
        self.fixed: Amounts = {}
        """Resource -> the sum of the others' mins."""
        self.shared: Amounts = {}
        """Resource that its parent shares out to it -> its min of it."""
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
    totals: dict[str, Amounts] = field(default_factory=dict)
    """The total of every separate tree."""
    withheld: dict[str, Amounts] = field(default_factory=dict)
    """Of those, the ones that the default tree has to do without."""
    chosen: dict[str, GroupSpec] = field(default_factory=dict)
    """What each group is made of, but for the built-in ones."""
    notes: dict[str, dict[str, list[Problem]]] = field(default_factory=lambda: {stage: {} for stage in STAGES})
    """What is wrong, by what was looked at and the group."""
    named: dict[str, set[str]] = field(default_factory=dict)
    """By name: the groups that name it as their parent."""
    tops: set[str] = field(default_factory=set)
    """The groups that set the total of a tree."""
    unshared: frozenset[str] = frozenset()
    """Resources that no node has, since hooks alone charge them: only a max limits them."""

    @property
    def problems(self) -> list[Problem]:
        """What is wrong, in an order that depends on the objects alone."""
        return [problem for stage in self.notes.values() for _, listed in sorted(stage.items()) for problem in listed]

    def note(self, stage: str, name: str, problems: list[Problem]) -> None:
        """What is wrong with a group, in place of what was noted of it at this stage."""
        if problems:
            self.notes[stage][name] = problems
        else:
            self.notes[stage].pop(name, None)

    def choose(self, name: str, spec: GroupSpec | None) -> None:
        """What a group is to be made of; None: it is gone."""
        known = self.chosen.pop(name, None)
        if known is not None:
            self.named[known.parent].discard(name)
        self.tops.discard(name)
        if spec is not None:
            self.chosen[name] = spec
            self.named.setdefault(spec.parent, set()).add(name)
            if spec.is_root and spec.total is not None:
                self.tops.add(name)

    def with_all_below(self, names: Iterable[str]) -> set[str]:
        """These and the groups that name one of them as a parent, and so on."""
        found: set[str] = set()
        queue = list(names)
        while queue:
            name = queue.pop()
            if name not in found:
                found.add(name)
                queue.extend(self.named.get(name, ()) if name else ())
        return found


def build(specs: Iterable[GroupSpec], unshared: frozenset[str] = frozenset()) -> Forest:
    """The forest of these objects. Depends on the set of objects alone, never on their order."""
    forest = Forest(unshared=unshared)
    by_name: dict[str, list[GroupSpec]] = {}
    for spec in specs:
        by_name.setdefault(spec.name, []).append(spec)
    usable = 0
    for name in sorted(by_name):
        chosen, problems = choose(by_name[name], has_room=usable < GROUPS_MAX)
        usable += chosen is not None
        forest.note(NAMES, name, problems)
        forest.choose(name, chosen)
    _plant_default_tree(forest)
    place(forest, list(forest.chosen))
    set_totals(forest)
    return forest


def choose(specs: Iterable[GroupSpec], *, has_room: bool = True) -> tuple[GroupSpec | None, list[Problem]]:
    """Which of several objects of one name counts, and what is wrong with them."""
    chosen: GroupSpec | None = None
    problems: list[Problem] = []
    for spec in sorted(specs, key=lambda spec: spec.namespace):
        if chosen is not None:
            message = f"{chosen.object} has the same name and is used; names are unique in the cluster"
            problems.append(Problem(spec.object, "metadata.name", message))
        elif not (_is_usable(spec.name) and _is_usable(spec.tree)):
            owner = ascii(spec.object)[: 2 * NAME_LENGTH_MAX]
            problems.append(
                Problem(owner, "metadata.name", "its name or tree id is no Kubernetes name; it is not used")
            )
        elif not has_room:
            problems.append(Problem(spec.object, "metadata.name", f"more than {GROUPS_MAX} quotas; it is not used"))
        else:
            chosen, found = bounded(spec)
            if spec.name not in BUILT_IN_GROUPS:  # their ceilings are beyond 64 bits by design
                problems.extend(found)
    return chosen, problems


def place(forest: Forest, names: Collection[str]) -> None:
    """Make these groups, of which there is none yet, each below its parent. Whoever names one is among them."""
    names = sorted(names)
    for name in names:
        forest.groups[name] = Group(forest.chosen[name], _tree_of(forest.chosen[name], forest.chosen))
    for name in names:
        _attach(forest.groups[name], forest)
    _cut_cycles(forest, names)
    _measure(forest, names)
    for name in names:
        group = forest.groups[name]
        group.effective_min = dict(group.spec.min)
        group.runtime = dict.fromkeys(group.spec.max, 0) if group.is_detached else {}
        join_level(group, forest.unshared)
    for above in {parent for name in names if (parent := forest.groups[name].parent) is not None}:
        check_promises(forest, above)
    for name in names:
        check_promises(forest, forest.groups[name])


def uproot(forest: Forest, names: Collection[str]) -> None:
    """Take these groups away, as far as they are there. Whoever names one is among them."""
    parents = []
    for name in sorted(names):
        group = forest.groups.pop(name, None)
        for stage in (PLACES, PARENTS, PROMISES):
            forest.note(stage, name, [])
        if group is None or group.parent is None:
            continue
        leave_level(group)
        group.parent.children.remove(group)
        parents.append(group.parent)
    for parent in parents:
        if parent.is_root and parent.tree != DEFAULT_TREE and not parent.children:
            forest.roots.pop(parent.tree, None)
        elif parent.name in forest.groups:
            check_promises(forest, parent)


def replace_spec(forest: Forest, group: Group, spec: GroupSpec) -> None:
    """Another spec of a group that stays where it is."""
    has_other_keys = group.spec.max.keys() != spec.max.keys()
    looks_otherwise = has_other_keys or group.spec.is_parent != spec.is_parent
    moving = [group, *group.children] if has_other_keys else [group]
    for each in moving:
        leave_level(each)
    group.spec, group.weight, group.lends = spec, weights_of(spec), spec.lends
    group.effective_min = dict(spec.min)
    if group.is_detached:
        group.runtime = dict.fromkeys(spec.max, 0)
    for each in moving:
        join_level(each, forest.unshared)
    for each in [group, *group.children] if looks_otherwise else [group]:
        if each.parent is not None and not each.parent.is_root:
            _compare_with_parent(each, each.parent, forest)
    check_promises(forest, group)
    if group.parent is not None:
        check_promises(forest, group.parent)


def join_level(child: Group, unshared: frozenset[str] = frozenset()) -> None:
    """Let a group take part in what its parent shares out: all but what is `unshared`."""
    parent = child.parent
    if parent is None or child.is_built_in or child.is_detached:
        return
    for key in sorted(child.spec.max.keys() - unshared):
        if parent.is_root or key in parent.spec.max:
            sharers = parent.sharers.setdefault(key, [])
            sharers.insert(bisect_left(sharers, child.name, key=_name), child)
            child.shared[key] = child.spec.min.get(key, 0)
            sums = parent.fixed if child.spec.keeps_min else parent.promised
            sums[key] = sums.get(key, 0) + child.shared[key]


def leave_level(child: Group) -> None:
    """It no longer takes part."""
    parent = child.parent
    if parent is None:
        return
    for key, minimum in child.shared.items():
        sharers = parent.sharers[key]
        del sharers[bisect_left(sharers, child.name, key=_name)]
        (parent.fixed if child.spec.keeps_min else parent.promised)[key] -= minimum
        child.runtime.pop(key, None)
        if key in child.spec.min:
            child.effective_min[key] = child.spec.min[key]
        if not sharers:
            del parent.sharers[key]
            parent.promised.pop(key, None)
            parent.fixed.pop(key, None)
    child.shared = {}


def _name(group: Group) -> str:
    return group.name


def _is_usable(name: str) -> bool:
    """Fit to become part of a key."""
    return name.isascii() and len(name) <= NAME_LENGTH_MAX


def _plant_default_tree(forest: Forest) -> None:
    built_in = {name: forest.chosen.get(name) for name in (ROOT_GROUP, SYSTEM_GROUP, DEFAULT_GROUP)}
    for name in built_in:
        forest.choose(name, None)
    root_spec = built_in[ROOT_GROUP] or GroupSpec(name=ROOT_GROUP)
    root = forest.roots[DEFAULT_TREE] = Group(root_spec, DEFAULT_TREE, is_root=True)
    for name in (SYSTEM_GROUP, DEFAULT_GROUP):
        given = built_in[name]
        ceiling = {"cpu": AMOUNT_MAX, "memory": AMOUNT_MAX} | (given.max if given else {})
        group = Group(GroupSpec(name=name, namespace=given.namespace if given else "", max=ceiling), DEFAULT_TREE)
        group.parent, group.depth = root, 1
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
        _compare_with_parent(group, above, forest)


def _detach(group: Group, field: str, message: str, forest: Forest) -> None:
    group.is_detached = True
    forest.notes[PLACES].setdefault(group.name, []).append(Problem(group.spec.object, field, message))


def _compare_with_parent(group: Group, parent: Group, forest: Forest) -> None:
    spec, above = group.spec, parent.spec
    problems = []
    if not above.is_parent:
        problems.append(Problem(spec.object, PARENT, f"{above.name!r} is not labelled is-parent; it is treated as one"))
    for key in sorted(spec.max.keys() - above.max.keys() - forest.unshared):
        message = "is not named by the parent, which has nothing of it to share; only this max limits it"
        problems.append(Problem(spec.object, f"spec.max[{key}]", message))
    forest.note(PARENTS, group.name, problems)


def _cut_cycles(forest: Forest, names: Collection[str]) -> None:
    """Detaches every group that is its own ancestor; what hangs below such groups stays below them."""
    walk_of: dict[str, str] = {}
    among = set(names)
    for name in names:
        group: Group | None = forest.groups[name]
        while group is not None and group.name in among and not group.is_root and group.name not in walk_of:
            walk_of[group.name] = name
            group = group.parent
        if group is None or group.is_root or walk_of.get(group.name) != name:
            continue
        members = [group]
        while (above := members[-1].parent) is not None and above is not group:
            members.append(above)
        for member in members:
            if member.parent is not None:
                member.parent.children.remove(member)
                member.parent = None
            _detach(member, PARENT, "leads back to the quota itself", forest)
            forest.note(PARENTS, member.name, [])  # it has no parent to be compared with


def _measure(forest: Forest, names: Collection[str]) -> None:
    """Depths from the roots; what no root reaches, or only over too many steps, is detached."""
    among = set(names)
    queue = [
        group
        for group in map(forest.groups.__getitem__, names)
        if group.parent is None or group.parent.is_root or group.parent.name not in among
    ]
    for group in queue:  # grows while it is walked
        if group.parent is not None:
            group.depth = group.parent.depth + 1
            group.is_detached = group.is_detached or group.parent.is_detached
        if group.depth > DEPTH_MAX and not group.is_detached:
            _detach(group, PARENT, f"more than {DEPTH_MAX} quotas above each other", forest)
        queue.extend(group.children)


def set_totals(forest: Forest) -> None:
    """What each tree has to share out."""
    forest.totals, forest.withheld, forest.notes[TOTALS] = {}, {}, {}
    for name in sorted(forest.tops):
        spec = forest.chosen[name]
        tree = forest.groups[name].tree
        if spec.total is None:
            continue
        if tree == DEFAULT_TREE:
            message = "is empty, but the quota is the top of a separate tree"
            forest.note(TOTALS, name, [Problem(spec.object, TREE, message)])
        elif tree in forest.totals:
            message = f"tree {tree!r} has another top already; this total is not used"
            forest.note(TOTALS, name, [Problem(spec.object, label_field(names.LABEL_QUOTA_IS_ROOT), message)])
        else:
            forest.totals[tree] = spec.total
            if not spec.ignores_default_tree:
                forest.withheld[tree] = spec.total
    for tree, root in sorted(forest.roots.items()):
        if tree != DEFAULT_TREE and tree not in forest.totals:
            top = min(root.children, key=lambda group: group.name)
            message = f"tree {tree!r} has no quota with is-root and total-resource, so it has nothing to share"
            forest.note(TOTALS, top.name, [Problem(top.spec.object, TREE, message)])


def check_promises(forest: Forest, parent: Group) -> None:
    """Children promised more than their parent was: nothing breaks, but the promises cannot all be kept."""
    if parent.is_root or parent.is_built_in:
        return
    promised: Amounts = {}
    for child in parent.children if not parent.spec.is_root else ():
        if not child.spec.is_forced:
            for key, amount in child.spec.min.items():
                promised[key] = promised.get(key, 0) + amount
    problems = []
    for key in sorted(promised):
        have = parent.spec.min.get(key, 0)
        if promised[key] > have:
            message = f"the minimums of its children add up to {promised[key]}, above its own {have}"
            problems.append(Problem(parent.spec.object, f"spec.min[{key}]", message))
    forest.note(PROMISES, parent.name, problems)
