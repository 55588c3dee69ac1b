"""Which quota group pays for a pod: one rule for the accounts of quota-manager and the charges of a solver.

Koordinator's order: the pod's own label, then a quota named like the pod's namespace and living in it, then a quota
whose `namespaces` annotation lists the namespace, then the default group. Where two quotas claim one namespace, the
smaller name gets it, so that everybody comes to the same answer.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Self

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
    """The groups there are and the namespaces they serve, resolved once; a look-up is two dictionary reads."""

    __slots__ = ("_of_namespace", "_uses_default", "names")

    def __init__(self, names: Iterable[str], of_namespace: Mapping[str, str], *, uses_default: bool = True) -> None:
        """`of_namespace` names the group of each mapped namespace, as published with the groups.

        Without `uses_default` (feature gate DisableDefaultQuota) only the label counts.
        """
        self.names = frozenset(names) - {ROOT_GROUP} | BUILT_IN_GROUPS
        self._of_namespace = dict(of_namespace)
        self._uses_default = uses_default

    @classmethod
    def of_claims(cls, claims: Iterable[QuotaClaim], *, uses_default: bool = True) -> Self:
        """The map that a set of ElasticQuotas makes, whatever their order."""
        claims = sorted(claims)
        of_namespace: dict[str, str] = {}
        for claim in claims:
            if claim.name == claim.namespace:
                of_namespace[claim.namespace] = claim.name
        for claim in claims:
            for namespace in claim.namespaces:
                of_namespace.setdefault(namespace, claim.name)
        return cls((claim.name for claim in claims), of_namespace, uses_default=uses_default)

    def group_of(self, label: str | None, namespace: str) -> str | None:
        """The group that pays for a pod with this quota label in this namespace; None: no quota applies to it."""
        if not self._uses_default:
            return label if label and label in self.names else None
        name = label or self._of_namespace.get(namespace, DEFAULT_GROUP)
        return name if name in self.names else DEFAULT_GROUP

    def namespaces_of(self) -> dict[str, list[str]]:
        """The namespaces that each group serves, sorted; groups without any are left out."""
        served: dict[str, list[str]] = {}
        if self._uses_default:
            for namespace, name in sorted(self._of_namespace.items()):
                served.setdefault(name, []).append(namespace)
        return served


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
