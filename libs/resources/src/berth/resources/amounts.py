"""Resource vectors: amounts by resource name, as integers.

An amount is in thousandths of a core for `cpu` and in base units (bytes, pieces) for every other resource.
Koordinator's `kubernetes.io/batch-cpu` and `kubernetes.io/mid-cpu` are counts of thousandths of a core already, written
as plain integers, so they are "other" here. A resource that a vector does not name has the amount 0.

Sums are exact Python integers and may exceed 64 bits when inputs are absurd; `clamped` brings a vector back before it
goes on the wire.
"""

from collections.abc import Mapping
from typing import Final

from berth.resources.quantity import (
    AMOUNT_MAX,
    QuantityError,
    format_bytes,
    format_milli,
    format_units,
    parse_milli,
    parse_units,
)

Amounts = dict[str, int]
FieldProblem = tuple[str, str]

NAMES_MAX: Final = 256
NAME_LENGTH_MAX: Final = 317  # a DNS subdomain (253), a slash, a name (63)

_CPU: Final = "cpu"


def parse_amounts(mapping: object, field: str, *, allow_negative: bool = False) -> tuple[Amounts, list[FieldProblem]]:
    """The amounts of a Kubernetes resource list, and (field, message) for each entry that could not be read.

    An unreadable entry is left out of the amounts: the caller decides whether the object can be used without it.
    `None` is an empty list.
    """
    if mapping is None:
        return {}, []
    if not isinstance(mapping, Mapping):
        return {}, [(field, "must be an object of resource names and quantities")]
    if len(mapping) > NAMES_MAX:
        return {}, [(field, f"names {len(mapping)} resources, at most {NAMES_MAX} are accepted")]
    amounts: Amounts = {}
    problems: list[FieldProblem] = []
    for name, value in mapping.items():
        if not isinstance(name, str) or not name or len(name) > NAME_LENGTH_MAX:
            problems.append((field, f"has a resource name that is empty or longer than {NAME_LENGTH_MAX} characters"))
            continue
        try:
            amounts[name] = (parse_milli if name == _CPU else parse_units)(value, allow_negative=allow_negative)
        except QuantityError as error:
            problems.append((f"{field}[{name}]", str(error)))
    return amounts, problems


def format_amount(name: str, amount: int) -> str:
    """The canonical quantity of an amount: cores for `cpu`, binary SI for bytes, decimal SI for the rest."""
    if name == _CPU:
        return format_milli(amount)
    if in_bytes(name):
        return format_bytes(amount)
    return format_units(amount)


def format_amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    """A Kubernetes resource list of the amounts."""
    return {name: format_amount(name, amount) for name, amount in amounts.items()}


def add(left: Mapping[str, int], right: Mapping[str, int]) -> Amounts:
    """`left + right`."""
    total = dict(left)
    add_into(total, right)
    return total


def add_into(total: Amounts, more: Mapping[str, int]) -> None:
    """`total += more`, in place."""
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def subtract_from(total: Amounts, less: Mapping[str, int]) -> None:
    """`total -= less`, in place; may become negative."""
    for name, amount in less.items():
        total[name] = total.get(name, 0) - amount


def maximum(left: Mapping[str, int], right: Mapping[str, int]) -> Amounts:
    """The larger amount of each resource that either side names. A side that does not name it counts as 0."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def minimum(left: Mapping[str, int], right: Mapping[str, int]) -> Amounts:
    """The smaller amount of each resource that either side names. A side that does not name it counts as 0."""
    return {name: min(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def without_zeros(amounts: Mapping[str, int]) -> Amounts:
    """Only the resources with an amount other than 0, so that equal vectors compare equal."""
    return {name: amount for name, amount in amounts.items() if amount}


def lacking(request: Mapping[str, int], free: Mapping[str, int]) -> Amounts:
    """What is missing from `capacity`, per requested resource; empty when the request fits. A request of 0 always
    fits."""
    return {name: amount - free.get(name, 0) for name, amount in request.items() if amount > max(0, free.get(name, 0))}


def clamped(amounts: Mapping[str, int]) -> Amounts:
    """Each amount held within plus and minus 2**63 - 1, which is what messages can carry."""
    return {name: max(-AMOUNT_MAX, min(AMOUNT_MAX, amount)) for name, amount in amounts.items()}


def in_bytes(name: str) -> bool:
    """Whether amounts of the resource are bytes."""
    return name.endswith("memory") or name == "ephemeral-storage" or name == "storage" or name.startswith("hugepages-")
