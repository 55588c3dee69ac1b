"""ElasticQuotas that admission would have refused: created before it, beside it, or made wrong by what came later.

Nothing follows from it but a report. An object is looked at again when it changes, or when its parent, its children or
another claimant of its namespaces do; so a change costs what hangs together with it, in pieces if that is much.

Of what admission refuses to change nothing is said but what is wrong afterwards: groups may move, to another tree as
well, and their pods come along. A quota that was deleted under its children or pods is named until they are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from berth.contracts import names, state
from berth.quota_manager.core.group import GroupSpec, Problem
from berth.quota_manager.core.objects import read_amounts
from berth.resources.amounts import Amounts
from berth.rules.bounded_json import annotation_field, label_field, read_annotation
from berth.rules.quota_admission.bookings import Asked, book
from berth.rules.quota_admission.defaults import with_defaults
from berth.rules.quota_admission.pods import PodOfQuota, pod_refusals
from berth.rules.quota_admission.quota import KnownQuotas, Quota, Refusal, Switches
from berth.rules.quota_admission.requests import deletion_refusals, standing_refusals
from berth.rules.quota_of_pod import DEFAULT_GROUP

LOOKED_AT_ONCE: Final = 100
"""Objects of one round: a report can wait, limits cannot."""


class Admission(NamedTuple):
    """What of admission is in force in the cluster, and so worth a report."""

    switches: Switches = Switches(parents_take_pods=True)
    books_pods: bool = False
    """EnableQuotaAdmission: pods are let in only as long as their quota has room."""


class Demand(NamedTuple):
    """What belongs to a group now."""

    pods: int
    """Of its own."""
    request: Amounts
    """What they and the groups below ask for."""
    naming: int = 0
    """Pods whose label names it, whoever pays for them."""


def read_admitted(quota: state.ElasticQuota, spec: GroupSpec, switches: Switches) -> Quota:
    """An ElasticQuota as admission looks at it; `spec` is what was read of it already.

    What rules don't ask for is left out, so that a change of mere figures is none.
    """
    strict = read_annotation(quota.annotations, names.ANNOTATION_QUOTA_STRICT_KEYS, list[str])
    keys = tuple(strict) if isinstance(strict, list) else ()
    guaranteed = read_amounts(quota.annotations, names.ANNOTATION_QUOTA_GUARANTEED) if switches.guarantees_use else None
    return Quota(
        name=spec.name,
        namespace=spec.namespace,
        parent=spec.parent,
        is_parent=spec.is_parent,
        is_root=spec.is_root,
        tree=spec.tree,
        is_forced=spec.is_forced,
        min=spec.min,
        max=spec.max,
        weight=spec.weight,
        guaranteed=guaranteed if isinstance(guaranteed, dict) else {},
        namespaces=spec.namespaces,
        used=dict(quota.used) if keys else {},
        strict_keys=keys,
    )


class Slipped:
    """All that admission would refuse of what is there."""

    def __init__(self, admission: Admission, demand: Callable[[str], Demand]) -> None:
        self.admission = admission
        self._demand = demand
        self._objects: dict[str, dict[str, Quota]] = {}  # name -> key -> object
        self._limits: dict[str, Amounts] = {}  # key -> annotation `admission`
        self._known = KnownQuotas()
        self._deleted: dict[str, str] = {}
        """By name: how a quota was known to its author that was deleted and is missed."""
        self._dirty: dict[str, None] = {}
        self._found: dict[str, tuple[Problem, ...]] = {}
        self._listed: list[Problem] | None = []

    @property
    def objects(self) -> int:
        """How many objects admission would refuse."""
        return len(self._found)

    def put(self, key: str, quota: state.ElasticQuota, spec: GroupSpec) -> None:
        """An ElasticQuota was seen."""
        seen = read_admitted(quota, spec, self.admission.switches)
        limit = read_amounts(quota.annotations, names.ANNOTATION_QUOTA_ADMISSION)
        known = self._objects.setdefault(seen.name, {})
        if known.get(key) != seen or (limit if isinstance(limit, dict) else {}) != self._limits.get(key, {}):
            known[key] = seen
            self._limits[key] = limit if isinstance(limit, dict) else {}
            self._dirty[seen.name] = None

    def remove(self, key: str, name: str) -> None:
        """An ElasticQuota is gone."""
        self._limits.pop(key, None)
        if self._objects.get(name, {}).pop(key, None) is not None:
            self._dirty[name] = None

    def reset(self) -> None:
        """Forgets everything that was seen."""
        for kept in (self._objects, self._limits, self._dirty, self._found, self._deleted):
            kept.clear()
        self._known = KnownQuotas()
        self._listed = []

    def look(self, moved: Iterable[str]) -> list[Problem]:
        """What is wrong now; the same list until it changes. `moved`: groups with another demand."""
        if self.admission.books_pods or not self.admission.switches.parents_take_pods:
            self._dirty.update(dict.fromkeys(sorted(name for name in moved if name in self._objects)))
        moved = set(moved) if self._deleted else moved
        if self._deleted and DEFAULT_GROUP in moved:  # who pays for pods whose group is gone
            self._dirty.update(dict.fromkeys(self._deleted))
        for _ in range(LOOKED_AT_ONCE):
            if not self._dirty:
                break
            name = next(iter(self._dirty))
            del self._dirty[name]
            self._look_at(name)
        if self._listed is None:
            self._listed = [problem for name in sorted(self._found) for problem in self._found[name]]
        return self._listed

    def _look_at(self, name: str) -> None:
        objects = self._objects.get(name)
        if not objects:
            self._objects.pop(name, None)
            self._look_at_deleted(name)
            return
        self._deleted.pop(name, None)
        key, quota = min(objects.items(), key=lambda item: item[1].namespace)
        filled = with_defaults(quota, self._known)
        stands = quota if isinstance(filled, Refusal) else filled
        if self._known.get(name) != stands:
            self._becomes(name, stands)
        found = [filled] if isinstance(filled, Refusal) else []
        found += standing_refusals(stands, self._known, self.admission.switches)
        problems = [
            Problem(f"{quota.namespace}/{name}", refusal.field, refusal.message)
            for refusal in found
            if not self._is_said_elsewhere(refusal, stands)
        ]
        problems += self._of_pods(key, stands)
        self._finds(name, tuple(dict.fromkeys(problems)))

    def _look_at_deleted(self, name: str) -> None:
        """There is no object of the name any more: it should not have been deleted while others need it."""
        known = self._known.get(name)
        if known is not None:
            self._deleted[name] = f"{known.namespace}/{name}"
        self._becomes(name, None)
        refused = deletion_refusals(name, self._known, bound_pods=self._demand(name).naming)
        owner = self._deleted.get(name, "")
        problems = tuple(
            Problem(owner, each.field, f"was deleted although {each.message}")
            for each in refused
            if owner and each.rule in ("hasChildren", "hasPods")
        )
        if not problems:
            self._deleted.pop(name, None)
        self._finds(name, problems)

    def _becomes(self, name: str, quota: Quota | None) -> None:
        """Whoever hangs together with what was and with what is has to be looked at again."""
        for version in (self._known.get(name), quota):
            if version is not None:
                near = [version.above, *self._known.children_of(name)]
                near += [other for namespace in version.namespaces for other in self._known.claimants_of(namespace)]
                near = [other for other in near if other in self._objects or other in self._deleted]
                self._dirty.update(dict.fromkeys(near))
        if quota is None:
            self._known.remove(name)
        else:
            self._known.put(quota)

    def _finds(self, name: str, problems: tuple[Problem, ...]) -> None:
        if self._found.get(name, ()) != problems:
            self._listed = None
            if problems:
                self._found[name] = problems
            else:
                del self._found[name]

    def _is_said_elsewhere(self, refusal: Refusal, quota: Quota) -> bool:
        """Whether it is named once already: a circle by the forest, a sum of minimums at the parent."""
        above = self._known.get(quota.above)
        if refusal.rule == "siblingsMinSum":
            return above is not None and not above.is_root and not above.is_forced
        return refusal.rule == "parentIsDescendant"

    def _of_pods(self, key: str, quota: Quota) -> Iterator[Problem]:
        """What the pods of a quota show: that they are there at all, and that they ask for more than is let in.

        No figures in the text: it would be another problem with each pod.
        """
        where = f"{quota.namespace}/{quota.name}"
        demand = self._demand(quota.name)
        if demand.pods and any(pod_refusals(PodOfQuota(quota.name), self._known, switches=self.admission.switches)):
            message = "is a parent, which takes no pods itself, and pods name it"
            yield Problem(where, label_field(names.LABEL_QUOTA_IS_PARENT), message)
        if not self.admission.books_pods:
            return
        limit = self._limits[key]
        [excess], _ = book(quota.max, limit, {}, [Asked("CREATE", demand.request)])
        for name in excess.requested if excess is not None else ():
            field = f"{annotation_field(names.ANNOTATION_QUOTA_ADMISSION) if limit else 'spec.max'}[{name}]"
            yield Problem(where, field, "its pods ask for more than admission lets in")
