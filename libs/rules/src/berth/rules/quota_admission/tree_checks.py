"""What is wrong with an ElasticQuota among the others: its place, its keys, the sums of minimums, guarantees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from berth.contracts import names
from berth.resources.amounts import Amounts, add, maximum
from berth.rules.bounded_json import annotation_field
from berth.rules.quota_admission.quota import IS_PARENT, PARENT, TREE, KnownQuotas, Quota, Refusal, Switches
from berth.rules.quota_of_pod import ROOT_GROUP

STEPS_MAX: Final = 64
"""So many quotas above each other are looked at; more are a circle, or beyond reason."""


def tree_refusals(
    quota: Quota, known: KnownQuotas, *, old: Quota | None = None, bound_pods: int = 0, switches: Switches | None = None
) -> Iterator[Refusal]:
    """The rules that concern parent, children and siblings.

    Args:
        quota: as it is to be.
        known: the quotas that are there. What it knows under the name of `quota` is taken for the version before.
        old: the version before, None on creation.
        bound_pods: how many pods belong to the quota now.
        switches: what the cluster has chosen.
    """
    switches = switches or Switches()
    children = known.children_of(quota.name)
    if old is not None and old.is_parent and not quota.is_parent and children:
        yield Refusal("hasChildren", IS_PARENT, f"quota {min(children)!r} is below it")
    if old is not None and not old.is_parent and quota.is_parent and bound_pods:
        yield Refusal("hasPods", IS_PARENT, f"{bound_pods} pods belong to it")
    if old is not None and old.tree != quota.tree:
        yield Refusal("treeIdChanged", TREE, f"was {old.tree!r} and cannot change")
    above = None if quota.is_below_root else known.get(quota.above)
    if above is not None and above.tree != quota.tree:
        yield Refusal("treeIdMismatch", TREE, f"differs from the tree of its parent ({above.tree!r})")
    strangers = [name for name, child in children.items() if child.tree != quota.tree]
    if strangers:
        yield Refusal("treeIdMismatch", TREE, f"differs from the tree of its child {min(strangers)!r}")
    if quota.is_below_root and not quota.is_parent:
        return
    if not quota.is_below_root:
        if above is None:
            yield Refusal("parentNotFound", PARENT, f"quota {quota.above!r} does not exist")
        elif not above.is_parent:
            yield Refusal("parentIsLeaf", PARENT, f"{above.name!r} is not labelled is-parent")
        if _leads_back(quota, known):
            yield Refusal("parentIsDescendant", PARENT, "leads back to the quota itself")
    yield from _keys(quota, above, children, switches)
    if not quota.is_forced and not quota.is_root:
        yield from _sums(quota, above, known)
    if switches.guarantees_use and quota.tree and not quota.is_forced and not quota.is_root:
        yield from _guarantee(quota, known)


def namespace_refusals(quota: Quota, known: KnownQuotas) -> Iterator[Refusal]:
    """The namespaces that another quota has claimed already."""
    where = annotation_field(names.ANNOTATION_QUOTA_NAMESPACES)
    for namespace in quota.namespaces:
        others = known.claimants_of(namespace) - {quota.name}
        if others:
            yield Refusal("namespaceTaken", where, f"namespace {namespace!r} is claimed by quota {min(others)!r} too")


def _leads_back(quota: Quota, known: KnownQuotas) -> bool:
    """Whether the quota would be its own ancestor."""
    name = quota.above
    for _ in range(STEPS_MAX):
        if name == quota.name:
            return True
        above = known.get(name)
        if above is None or name == ROOT_GROUP:
            return False
        name = above.above
    return False  # a circle further up, which its own members are refused for


def _keys(quota: Quota, above: Quota | None, children: Mapping[str, Quota], switches: Switches) -> Iterator[Refusal]:
    own, least = quota.max.keys(), quota.min.keys()
    suspects = [
        name
        for name, child in children.items()
        if child.max.keys() != own or not child.min.keys() <= least  # most are like their parent
    ]
    pairs = [(above, quota)] if above is not None else []
    pairs += [(quota, children[name]) for name in sorted(suspects)]
    for parent, child in pairs:
        keys = child.max.keys() ^ parent.max.keys() if switches.strict_keys else child.max.keys() - parent.max.keys()
        if keys:
            who = child if min(keys) in child.max else parent
            message = f"only {who.name!r} names it, of the quota {child.name!r} and its parent {parent.name!r}"
            yield Refusal("maxKeys", f"spec.max[{min(keys)}]", message)
            break
    for parent, child in pairs:
        keys = child.min.keys() - parent.min.keys()
        if keys:
            message = f"is promised to {child.name!r}, but not to its parent {parent.name!r}"
            yield Refusal("minKeys", f"spec.min[{min(keys)}]", message)
            break


def _sums(quota: Quota, above: Quota | None, known: KnownQuotas) -> Iterator[Refusal]:
    if above is not None:
        for key, promised, have in _exceeding(known.promised_beside(quota), above.min):
            message = f"the minimums below {above.name!r} add up to {promised} with it, above its {have}"
            yield Refusal("siblingsMinSum", f"spec.min[{key}]", message)
    for key, promised, have in _exceeding(known.promised_below(quota.name), quota.min):
        message = f"the minimums of its children add up to {promised}, above its own {have}"
        yield Refusal("childrenMinSum", f"spec.min[{key}]", message)


def _exceeding(promised: Amounts, have: Amounts) -> Iterator[tuple[str, int, int]]:
    for key in sorted(promised):
        if promised[key] > have.get(key, 0):
            yield key, promised[key], have.get(key, 0)


def _guarantee(quota: Quota, known: KnownQuotas) -> Iterator[Refusal]:
    """A min is good when what is guaranteed above it has room for it."""
    if _within(quota.min, quota.guaranteed):
        return
    need = maximum(quota.min, quota.guaranteed)
    current = quota
    for _ in range(STEPS_MAX):
        above = None if current.is_below_root else known.get(current.above)
        if above is None:
            break
        need = maximum(above.min, add(need, known.guaranteed_beside(current)))
        if _within(need, above.guaranteed):
            return
        current = above
    yield Refusal("guaranteeExceeded", "spec.min", "is more than the guarantees of the quotas above have room for")


def _within(amounts: Mapping[str, int], limit: Mapping[str, int]) -> bool:
    return all(amount <= limit.get(key, 0) for key, amount in amounts.items())
