"""ElasticQuotaProfiles: which nodes a tree of quotas has, what its root quota says, where its pods may go.

Everybody comes to the same answers here: who makes the root quotas, who places pods, who judges placements.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.contracts.kube import LabelSelector, NodeSelectorTerm, Requirement
from berth.contracts.state import ElasticQuotaProfile
from berth.resources.amounts import Amounts
from berth.rules.bounded_json import read_annotation
from berth.rules.selectors import CompiledSelector, compile_selector

DEFAULT_KEYS: Final = ("cpu", "memory")
UNLIMITED: Final = 4611686018427387
"""The max of a root quota, in each of its resources."""

SELECTOR: Final = "spec.nodeSelector"
RATIO: Final = "spec.resourceRatio"

_NUMBER: Final = re.compile(r"\+?(\d{1,20}\.?\d{0,20}|\.\d{1,20})([eE][-+]?\d{1,2})?", re.ASCII)
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


class Profile(NamedTuple):
    """What a profile means, and what is wrong with it."""

    namespace: str
    name: str
    quota: str
    """The name of its root quota, in the same namespace."""
    tree: str
    quota_labels: Mapping[str, str]
    ratio: Decimal
    keys: tuple[str, ...]
    selector: CompiledSelector
    requirements: tuple[Requirement, ...]
    problems: tuple[Problem, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether it names a root quota."""
        return bool(self.quota)


class RootQuota(NamedTuple):
    """What the root quota of a profile says. Other labels and annotations of it stay."""

    min: Amounts
    max: Amounts
    total: Amounts
    unschedulable: Amounts
    labels: dict[str, str]


def read_profile(profile: ElasticQuotaProfile) -> Profile:
    """The profile; what cannot be read has its default, a broken selector selects nothing."""
    problems = list(profile.problems)
    ratio = Decimal(1)
    if profile.ratio:
        number = Decimal(profile.ratio) if _NUMBER.fullmatch(profile.ratio) else Decimal(0)
        if 0 < number <= 1:
            ratio = number
        else:
            message = f"{profile.ratio[:40]!r} is no number above 0 and at most 1; 1 is used"
            problems.append(Problem(field=RATIO, message=message))
    keys = read_annotation(profile.annotations, names.ANNOTATION_QUOTA_RESOURCE_KEYS, list[str])
    if isinstance(keys, Problem):
        problems.append(Problem(field=keys.field, message=f"{keys.message}; {', '.join(DEFAULT_KEYS)} are used"))
        keys = None
    selector = compile_selector(profile.selector, SELECTOR)
    problems += selector.problems
    if not profile.quota_name:
        problems.append(Problem(field="spec.quotaName", message="is empty: there is no quota to make"))
    return Profile(
        namespace=profile.namespace,
        name=profile.name,
        quota=profile.quota_name,
        tree=profile.labels.get(names.LABEL_QUOTA_TREE, "") or made_tree(profile.namespace, profile.name),
        quota_labels=profile.quota_labels,
        ratio=ratio,
        keys=tuple(dict.fromkeys(DEFAULT_KEYS if keys is None else keys)),
        selector=selector,
        requirements=tuple(requirements_of(profile.selector)),
        problems=tuple(problems),
    )


def made_tree(namespace: str, name: str) -> str:
    """The tree id of a profile that names none: a hash (FNV-1a, 64 bits) of where it is."""
    value = _FNV_OFFSET
    for byte in f"{namespace}/{name}".encode():
        value = (value ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return str(value)


def root_quota(profile: Profile, total: Mapping[str, int], unschedulable: Mapping[str, int]) -> RootQuota:
    """What its root quota says, given the sums of what its nodes offer and of those that take no pods now."""
    shared = _part(total, profile.ratio)
    labels = {
        names.LABEL_QUOTA_PROFILE: profile.name,
        **profile.quota_labels,
        names.LABEL_QUOTA_TREE: profile.tree,
        names.LABEL_QUOTA_IS_ROOT: "true",
    }
    return RootQuota(
        min={key: shared.get(key, 0) for key in profile.keys},
        max=dict.fromkeys(profile.keys, UNLIMITED),
        total=shared,
        unschedulable=_part(unschedulable, profile.ratio),
        labels=labels,
    )


def profile_of_tree(tree: str, profiles: Iterable[Profile]) -> Profile | None:
    """The profile whose nodes the tree has: of several the one that comes first by namespace and name."""
    if not tree:
        return None
    return min((each for each in profiles if each.tree == tree), key=lambda each: each[:2], default=None)


def requirements_of(selector: LabelSelector | None) -> list[Requirement]:
    """What a node's labels have to say so that pods of the tree may go there; no selector restricts nothing."""
    if selector is None:
        return []
    equal = [
        Requirement(key=key, operator="In", values=[value])
        for key, value in sorted((selector.match_labels or {}).items())
    ]
    return equal + list(selector.match_expressions or ())


def with_requirements(
    terms: Iterable[NodeSelectorTerm] | None, requirements: Iterable[Requirement]
) -> list[NodeSelectorTerm] | None:
    """A pod's required node terms with those of its tree: in every term, or in one of their own."""
    added = list(requirements)
    if not added:
        return None if terms is None else list(terms)
    return [
        NodeSelectorTerm(match_expressions=[*(term.match_expressions or ()), *added], match_fields=term.match_fields)
        for term in terms or (NodeSelectorTerm(),)
    ]


def _part(amounts: Mapping[str, int], ratio: Decimal) -> Amounts:
    """The share of each amount, rounded down exactly."""
    above, below = ratio.as_integer_ratio()
    return {key: amount * above // below for key, amount in amounts.items()}
