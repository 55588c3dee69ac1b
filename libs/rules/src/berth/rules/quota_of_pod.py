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

    __slots__ = ("_claimants", "_claims", "_of_namespace", "_served", "uses_default")

    def __init__(self, claims: Iterable[QuotaClaim] = (), *, uses_default: bool = True) -> None:
        """Without `uses_default` (feature gate DisableDefaultQuota) only the label counts."""
        self.uses_default = uses_default
        self._claims: dict[str, dict[str, QuotaClaim]] = {}
        self._claimants: dict[str, set[tuple[bool, str, str]]] = {}
        self._of_namespace: dict[str, str] = {}
        self._served: dict[str, set[str]] = {}
        for claim in claims:
            self.put(claim)

    def __contains__(self, name: object) -> bool:
        """There is a group of this name that may hold pods."""
        return (name in self._claims and name != ROOT_GROUP) or name in BUILT_IN_GROUPS

    def put(self, claim: QuotaClaim) -> set[str]:
        """A quota, in place of the one of this name and namespace; returns who serves other namespaces now."""
        known = self._claims.get(claim.name, {}).get(claim.namespace)
        if known == claim:
            return set()
        changed = self.drop(claim.name, claim.namespace) if known is not None else set()
        self._claims.setdefault(claim.name, {})[claim.namespace] = claim
        for namespace, rank in _ranks(claim).items():
            self._claimants.setdefault(namespace, set()).add(rank)
            changed |= self._settle(namespace)
        return changed

    def drop(self, name: str, namespace: str = "") -> set[str]:
        """A quota is gone; returns who serves other namespaces now."""
        claim = self._claims.get(name, {}).pop(namespace, None)
        if claim is None:
            return set()
        if not self._claims[name]:
            del self._claims[name]
        changed: set[str] = set()
        for served, rank in _ranks(claim).items():
            self._claimants[served].discard(rank)
            changed |= self._settle(served)
        return changed

    def claims_of(self, name: str) -> dict[str, QuotaClaim]:
        """What the quotas of this name claim, by their namespace."""
        return dict(self._claims.get(name, {}))

    def served_by(self, name: str) -> list[str]:
        """The namespaces that a group serves, sorted."""
        return sorted(self._served.get(name, ())) if self.uses_default else []

    def _settle(self, namespace: str) -> set[str]:
        """Of several claimants the smallest serves a namespace. The names of those for whom this is news."""
        claimants = self._claimants[namespace]
        before = self._of_namespace.pop(namespace, None)
        after = min(claimants)[1] if claimants else None
        if after is None:
            del self._claimants[namespace]
        else:
            self._of_namespace[namespace] = after
        if before == after:
            return set()
        if before is not None:
            self._served[before].discard(namespace)
            if not self._served[before]:
                del self._served[before]
        if after is not None:
            self._served.setdefault(after, set()).add(namespace)
        return {name for name in (before, after) if name is not None}

    def group_of(self, label: str | None, namespace: str) -> str | None:
        """The group that pays for a pod with this quota label in this namespace; None: no quota applies to it."""
        if not self.uses_default:
            return label if label and label in self else None
        name = label or self._of_namespace.get(namespace, DEFAULT_GROUP)
        return name if name in self else DEFAULT_GROUP


def claimed_by(claim: QuotaClaim) -> set[str]:
    """The namespaces that a quota claims."""
    return set(_ranks(claim))


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
