"""What one ElasticQuota object says, held within sane bounds, and what is wrong with it.

A wrong amount never stops a tree: it is replaced by the nearest value that cannot hand out more than was meant, and
reported with the object and field it stands in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from berth.contracts import names
from berth.resources.amounts import Amounts, format_amount
from berth.resources.quantity import AMOUNT_MAX
from berth.rules.bounded_json import annotation_field

NAMESPACES_MAX: Final = 1_000


class Problem(NamedTuple):
    """One thing that is wrong with one object; `field` is the path inside the object as its author knows it."""

    object: str
    field: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSpec:
    """An ElasticQuota as its author wrote it. The namespace has no meaning for the tree, names are cluster-wide."""

    name: str
    namespace: str = ""
    parent: str = ""
    """Empty: below the root of its tree."""
    is_parent: bool = False
    tree: str = ""
    is_root: bool = False
    """The top of a separate tree, which sets the total of that tree."""
    ignores_default_tree: bool = False
    is_forced: bool = False
    min: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)
    weight: Amounts | None = None
    lends: bool = True
    guarantees: bool = False
    """What its pods use is guaranteed, and its idle min is not lent."""
    keeps_min: bool = False
    """Its min is not scaled: its siblings give way first."""
    namespaces: tuple[str, ...] = ()
    total: Amounts | None = None
    problems: tuple[tuple[str, str], ...] = ()
    """(field, message) of what could not be read."""

    @property
    def object(self) -> str:
        """How the author finds the object."""
        return f"{self.namespace}/{self.name}"


def bounded(spec: GroupSpec) -> tuple[GroupSpec, list[Problem]]:
    """The spec with every amount in range, and the problems found on the way."""
    problems = [Problem(spec.object, field, message) for field, message in spec.problems]

    def held(amounts: Mapping[str, int], where: str) -> Amounts:
        return _held(amounts, spec.object, where, problems)

    ceiling = held(spec.max, "spec.max")
    promised = _below(held(spec.min, "spec.min"), ceiling, spec.object, problems)
    weight = held(spec.weight, annotation_field(names.ANNOTATION_QUOTA_WEIGHT)) if spec.weight is not None else None
    total = held(spec.total, annotation_field(names.ANNOTATION_QUOTA_TOTAL)) if spec.total is not None else None
    namespaces = spec.namespaces
    if len(namespaces) > NAMESPACES_MAX:
        message = f"names {len(namespaces)} namespaces, the first {NAMESPACES_MAX} count"
        problems.append(Problem(spec.object, annotation_field(names.ANNOTATION_QUOTA_NAMESPACES), message))
        namespaces = namespaces[:NAMESPACES_MAX]
    return replace(spec, max=ceiling, min=promised, weight=weight, total=total, namespaces=namespaces), problems


def weights_of(spec: GroupSpec) -> Amounts:
    """The shared weights in force: those given, or the max where none is given or all are zero."""
    if spec.weight is not None and any(spec.weight.values()):
        return spec.weight
    return spec.max


def _held(amounts: Mapping[str, int], owner: str, where: str, problems: list[Problem]) -> Amounts:
    """Each amount within 0 and the largest integer a message can carry."""
    held: Amounts = {}
    for name, amount in amounts.items():
        if amount < 0:
            problems.append(Problem(owner, f"{where}[{name}]", "must not be negative; 0 is used"))
        elif amount > AMOUNT_MAX:
            problems.append(Problem(owner, f"{where}[{name}]", f"is too large; {AMOUNT_MAX} is used"))
        held[name] = min(max(amount, 0), AMOUNT_MAX)
    return held


def _below(promised: Amounts, ceiling: Amounts, owner: str, problems: list[Problem]) -> Amounts:
    """The min without what the max does not name, and cut to the max where it is larger."""
    kept: Amounts = {}
    for name, amount in promised.items():
        limit = ceiling.get(name)
        if limit is None:
            if amount:
                problems.append(Problem(owner, f"spec.min[{name}]", "is not named in spec.max; it is ignored"))
            continue
        if amount > limit:
            above = f"is above spec.max ({format_amount(name, limit)}); the max is used"
            problems.append(Problem(owner, f"spec.min[{name}]", above))
        kept[name] = min(amount, limit)
    return kept
