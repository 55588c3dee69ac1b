"""A limit of a quota group held against a charge: what is exceeded, and what would repair all of it.

A repair is true as it stands: free what it names in the groups it names, or raise their limits to what it says, and the
charge is within every limit. More than is used is never asked to be freed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from berth.contracts.quota import QuotaGroup
from berth.resources.amounts import format_amount

Bound: TypeAlias = Literal["min", "runtime", "max"]


class Over(NamedTuple):
    """One resource of one group: `used` and `asked` together exceed `allowed`."""

    group: QuotaGroup
    bound: Bound
    name: str
    used: int
    asked: int
    allowed: int

    @property
    def message(self) -> str:
        """What is exceeded, with its figures."""
        used, asked, allowed = (format_amount(self.name, each) for each in (self.used, self.asked, self.allowed))
        kind = "non-preemptible use" if self.bound == "min" else "use"
        return f"quota {self.group.name}: {kind} of {self.name} {used} + {asked} exceeds its {self.bound} {allowed}"


def over(
    group: QuotaGroup, bound: Bound, limit: Mapping[str, int], used: Mapping[str, int], amounts: Mapping[str, int]
) -> Iterator[Over]:
    """The resources of a group that a charge of these amounts would bring above a limit.

    Only what the group limits and the charge asks for is looked at; what the limit does not name is 0. What hooks
    charge is shared out by nobody: its runtime is the max.
    """
    for name in group.limits:
        asked = amounts.get(name, 0)
        if asked > 0 and used.get(name, 0) + asked > limit.get(name, 0):
            is_unshared = bound == "runtime" and name in group.rules.hook_resources
            yield Over(group, "max" if is_unshared else bound, name, used.get(name, 0), asked, limit.get(name, 0))


def repair_of(exceeded: Iterable[Over]) -> str:
    """What to free, or to which values to raise limits. The group itself comes first, then those above it."""
    found = list(exceeded)
    ways = []
    if all(each.asked <= each.allowed for each in found):
        ways.append(f"free {' and '.join(_freed(found))}")
    limits = list(raised_in_words(raised(found)))
    if limits:
        ways.append(f"raise {' and '.join(limits)}")
    return ", or ".join(ways)


def _freed(found: Iterable[Over]) -> Iterator[str]:
    """What leaves a group leaves those above it, too; non-preemptible pods count among all of them."""
    gone: dict[str, int] = {}
    for each in found:
        short = each.used + each.asked - each.allowed - gone.get(each.name, 0)
        if short > 0:
            gone[each.name] = gone.get(each.name, 0) + short
            whose = "of non-preemptible pods " if each.bound == "min" else ""
            yield f"{format_amount(each.name, short)} {each.name} {whose}in quota {each.group.name}"


def raised(found: Iterable[Over]) -> dict[tuple[str, str, str], int]:
    """What `min` and `max` have to become, by group, resource and which of the two. A runtime cannot be set: a group
    gets at least its min, which its max must allow."""
    wanted: dict[tuple[str, str, str], int] = {}
    for each in found:
        amount = each.used + each.asked
        for field in ("max",) if each.bound == "max" else ("min", "max"):
            has = (each.group.max if field == "max" else each.group.min).get(each.name, 0)
            key = (each.group.name, each.name, field)
            if amount > max(has, wanted.get(key, 0)):
                wanted[key] = amount
    return wanted


def raised_in_words(wanted: Mapping[tuple[str, str, str], int]) -> Iterator[str]:
    """The same for people."""
    fields: dict[tuple[str, str, int], list[str]] = {}
    for (group, name, field), amount in wanted.items():
        fields.setdefault((group, name, amount), []).append(field)
    for (group, name, amount), named in fields.items():
        yield f"{' and '.join(sorted(named, reverse=True))} of quota {group} to {format_amount(name, amount)} {name}"
