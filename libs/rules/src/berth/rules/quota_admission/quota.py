"""An ElasticQuota as admission looks at it, what may be wrong with one, and all that are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from berth.contracts import names
from berth.contracts.base import Problem
from berth.resources.amounts import Amounts, add_into, subtract_from
from berth.rules.bounded_json import label_field
from berth.rules.quota_of_pod import ROOT_GROUP

PARENT: Final = label_field(names.LABEL_QUOTA_PARENT)
IS_PARENT: Final = label_field(names.LABEL_QUOTA_IS_PARENT)
TREE: Final = label_field(names.LABEL_QUOTA_TREE)


class Refusal(NamedTuple):
    """Why an object is not admitted."""

    rule: str
    """The name of the broken rule, such as `minAboveMax`."""
    field: str
    """The path inside the object as its author knows it."""
    message: str


class Switches(NamedTuple):
    """What a cluster may choose, with the gates of the protocol."""

    strict_keys: bool = False
    """The keys of max are the same on all levels; else those of a child are among its parent's
    (ElasticQuotaEnableUpdateResourceKey), so that a new kind of device can be added level by level."""
    guarantees_use: bool = False
    """ElasticQuotaGuaranteeUsage."""
    parents_take_pods: bool = False
    """SupportParentQuotaSubmitPod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What of an ElasticQuota admission depends on."""

    name: str
    namespace: str = ""
    parent: str = ""
    """Empty: the root."""
    is_parent: bool = False
    is_root: bool = False
    """The top of a separate tree."""
    tree: str = ""
    is_forced: bool = False
    min: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)
    weight: Amounts | Problem | None = None
    """The annotation `shared-weight`: a Problem where it can't be read, None where it is absent."""
    guaranteed: Amounts = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()
    used: Amounts = field(default_factory=dict)
    """`status.used`."""
    strict_keys: tuple[str, ...] = ()
    """The annotation `max-strict-check-resource-keys`."""

    @property
    def above(self) -> str:
        """The name of its parent, the root's where it names none."""
        return self.parent or ROOT_GROUP

    @property
    def is_below_root(self) -> bool:
        """Whether nothing but the root is above it."""
        return self.above == ROOT_GROUP


class KnownQuotas:
    """All ElasticQuotas of the cluster by name, kept up to date one by one.

    Looking at one quota costs nothing per sibling: what the children of a group are promised is kept as a sum.
    """

    def __init__(self, quotas: Iterable[Quota] = ()) -> None:
        self._by_name: dict[str, Quota] = {}
        self._children: dict[str, dict[str, Quota]] = {}
        self._promised: dict[str, Amounts] = {}
        self._guaranteed: dict[str, Amounts] = {}
        self._claimants: dict[str, set[str]] = {}
        for quota in quotas:
            self.put(quota)

    def __iter__(self) -> Iterator[Quota]:
        return iter(self._by_name.values())

    def get(self, name: str) -> Quota | None:
        """The quota of this name."""
        return self._by_name.get(name)

    def put(self, quota: Quota) -> None:
        """A quota is there, or says something else."""
        self.remove(quota.name)
        above = quota.above
        self._by_name[quota.name] = quota
        self._children.setdefault(above, {})[quota.name] = quota
        add_into(self._promised.setdefault(above, {}), quota.min)
        add_into(self._guaranteed.setdefault(above, {}), quota.guaranteed)
        for namespace in quota.namespaces:
            self._claimants.setdefault(namespace, set()).add(quota.name)

    def remove(self, name: str) -> None:
        """A quota is gone."""
        quota = self._by_name.pop(name, None)
        if quota is None:
            return
        above = quota.above
        del self._children[above][name]
        if self._children[above]:
            subtract_from(self._promised[above], quota.min)
            subtract_from(self._guaranteed[above], quota.guaranteed)
        else:
            del self._children[above], self._promised[above], self._guaranteed[above]
        for namespace in set(quota.namespaces):
            self._claimants[namespace].discard(name)
            if not self._claimants[namespace]:
                del self._claimants[namespace]

    def children_of(self, name: str) -> Mapping[str, Quota]:
        """The quotas right below this one, by name."""
        return self._children.get(name, {})

    def claimants_of(self, namespace: str) -> frozenset[str]:
        """The quotas whose annotation names this namespace."""
        return frozenset(self._claimants.get(namespace, ()))

    def promised_beside(self, quota: Quota) -> Amounts:
        """The sum of the mins below the parent of this quota, its own (as it is given) in place of the one known."""
        total = dict(self._promised.get(quota.above, {}))
        known = self._by_name.get(quota.name)
        if known is not None and known.above == quota.above:
            subtract_from(total, known.min)
        add_into(total, quota.min)
        return total

    def guaranteed_beside(self, quota: Quota) -> Amounts:
        """The sum of what the siblings of this quota are guaranteed, without its own part."""
        total = dict(self._guaranteed.get(quota.above, {}))
        known = self._by_name.get(quota.name)
        if known is not None and known.above == quota.above:
            subtract_from(total, known.guaranteed)
        return total

    def promised_below(self, name: str) -> Amounts:
        """The sum of the mins of the children."""
        return dict(self._promised.get(name, {}))
