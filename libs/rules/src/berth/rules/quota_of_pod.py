"""Which quota group pays for a pod: one rule for the accounts of quota-manager and the charges of a solver.

Koordinator's order: the pod's own label, then a quota named like the pod's namespace and living in it, then a quota
whose `namespaces` annotation lists the namespace, then the default group. Where two quotas claim one namespace, the
smaller name gets it, so that everybody comes to the same answer.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.contracts.names import ANNOTATION_QUOTA_NAMESPACES
from berth.rules.bounded_json import annotation_field, read_annotation

ROOT_GROUP: Final = "koordinator-root-quota"
"""The top of a tree. It holds no pods and limits nothing by itself."""
SYSTEM_GROUP: Final = "koordinator-system-quota"
DEFAULT_GROUP: Final = "koordinator-default-quota"
"""Takes the pods that belong to no other group."""
BUILT_IN_GROUPS: Final = frozenset((SYSTEM_GROUP, DEFAULT_GROUP))
"""They exist whether or not there is an object for them."""

NAMESPACE_LENGTH_MAX: Final = 253
NAMESPACES_BYTES_MAX: Final = 256 * 1024
"""Kubernetes keeps no larger annotations."""


class QuotaClaim(NamedTuple):
    """What an ElasticQuota says about the pods it takes. `namespaces` is the content of its annotation."""

    name: str
    namespace: str = ""
    namespaces: tuple[str, ...] = ()


class QuotaMap:
    """The groups there are and the namespaces they serve; a look-up is two dictionary reads, a change O(its claim)."""

    __slots__ = ("_claimants", "_claims", "_names", "_of_namespace", "uses_default")

    def __init__(self, claims: Iterable[QuotaClaim] = (), *, uses_default: bool = True) -> None:
        """Without `uses_default` (feature gate DisableDefaultQuota) only the label counts."""
        self.uses_default = uses_default
        self._claims: dict[tuple[str, str], QuotaClaim] = {}
        self._names: dict[str, int] = {}
        self._claimants: dict[str, set[tuple[bool, str, str]]] = {}
        self._of_namespace: dict[str, str] = {}
        for claim in claims:
            self.put(claim)

    def __contains__(self, name: object) -> bool:
        """There is a group of this name that may hold pods."""
        return (name in self._names and name != ROOT_GROUP) or name in BUILT_IN_GROUPS

    def put(self, claim: QuotaClaim) -> None:
        """A quota, in place of what was known of the one of this name and namespace."""
        known = self._claims.get((claim.name, claim.namespace))
        if known == claim:
            return
        if known is not None:
            self.drop(claim.name, claim.namespace)
        self._claims[claim.name, claim.namespace] = claim
        self._names[claim.name] = self._names.get(claim.name, 0) + 1
        for namespace, rank in _ranks(claim).items():
            self._claimants.setdefault(namespace, set()).add(rank)
            self._of_namespace[namespace] = min(self._claimants[namespace])[1]

    def drop(self, name: str, namespace: str = "") -> None:
        """A quota is gone."""
        claim = self._claims.pop((name, namespace), None)
        if claim is None:
            return
        self._names[name] -= 1
        if not self._names[name]:
            del self._names[name]
        for served, rank in _ranks(claim).items():
            others = self._claimants[served]
            others.discard(rank)
            if others:
                self._of_namespace[served] = min(others)[1]
            else:
                del self._claimants[served], self._of_namespace[served]

    def group_of(self, label: str | None, namespace: str) -> str | None:
        """The group that pays for a pod with this quota label in this namespace; None: no quota applies to it."""
        if not self.uses_default:
            return label if label and label in self else None
        name = label or self._of_namespace.get(namespace, DEFAULT_GROUP)
        return name if name in self else DEFAULT_GROUP

    def namespaces_of(self) -> dict[str, list[str]]:
        """The namespaces that each group serves, sorted; groups without any are left out."""
        served: dict[str, list[str]] = {}
        if self.uses_default:
            for namespace, name in sorted(self._of_namespace.items()):
                served.setdefault(name, []).append(namespace)
        return served


def _ranks(claim: QuotaClaim) -> dict[str, tuple[bool, str, str]]:
    """By namespace that a quota claims: its place among the claimants, the smallest wins."""
    rank = (True, claim.name, claim.namespace)
    ranks = dict.fromkeys(claim.namespaces, rank)
    if claim.name == claim.namespace:
        ranks[claim.namespace] = (False, claim.name, claim.namespace)
    return ranks


def parse_namespaces(annotations: Mapping[str, str]) -> tuple[tuple[str, ...], Problem | None]:
    """The names in the `namespaces` annotation of an ElasticQuota, and what is wrong with it.

    An unreadable annotation counts as empty, an entry that cannot be a namespace is left out.
    """
    names = read_annotation(annotations, ANNOTATION_QUOTA_NAMESPACES, list[str], bytes_max=NAMESPACES_BYTES_MAX)
    if names is None:
        return (), None
    if isinstance(names, Problem):
        return (), names
    usable = tuple(dict.fromkeys(name for name in names if name and len(name) <= NAMESPACE_LENGTH_MAX))
    if len(usable) == len(set(names)):
        return usable, None
    field = annotation_field(ANNOTATION_QUOTA_NAMESPACES)
    return usable, Problem(field=field, message="contains a name that no namespace can have")
