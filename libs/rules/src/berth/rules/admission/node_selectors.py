"""Selectors of node strategies: which match a node, and whether two may match one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from berth.contracts.kube import LabelSelector
from berth.rules.selectors import LabelTest, compile_selector


class Named(NamedTuple):
    """A strategy of a configuration: its name, for people, and its selector."""

    name: str
    selector: LabelSelector


class NodeSelectors:
    """The selectors of each key of a configuration, as one node after the other is matched against them."""

    def __init__(self, by_key: Mapping[str, Sequence[Named]] | None = None) -> None:
        self._by_key = {
            key: [(each.name, compile_selector(each.selector).matches) for each in strategies]
            for key, strategies in (by_key or {}).items()
        }

    def conflicts(self, labels: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
        """The keys of which several strategies match a node with these labels, and their names."""
        for key, strategies in self._by_key.items():
            found = matching([test for _, test in strategies], labels)
            if len(found) > 1:
                yield key, [strategies[place][0] for place in found]


def matching(tests: Sequence[LabelTest], labels: Mapping[str, str]) -> list[int]:
    """The places of the selectors that match a node."""
    return [place for place, test in enumerate(tests) if test(labels)]


def overlapping(selectors: Sequence[LabelSelector]) -> tuple[int, int] | None:
    """The places of two selectors of which one matches a node that has no labels but what the other asks for.

    Selectors for different labels do not overlap in this sense, although a node may have both labels: whether one does
    is a question to the nodes.
    """
    read = [_Conjunction(selector) for selector in selectors]
    for second, later in enumerate(read):
        for first, earlier in enumerate(read[:second]):
            if earlier.meets(later) or later.meets(earlier):
                return first, second
    return None


class _Conjunction:
    """What a selector says of each label."""

    def __init__(self, selector: LabelSelector) -> None:
        self.values: dict[str, frozenset[str] | None] = {}
        """Labels that have to be there; None: with any value."""
        self.excluded: dict[str, frozenset[str]] = {}
        self.absent: set[str] = set()
        for key, value in (selector.match_labels or {}).items():
            self._require(key, frozenset((value,)))
        for each in selector.match_expressions or ():
            values = frozenset(each.values or ())
            match each.operator:
                case "In":
                    self._require(each.key, values)
                case "NotIn":
                    self.excluded[each.key] = self.excluded.get(each.key, frozenset()) | values
                case "Exists":
                    self.values.setdefault(each.key, None)
                case "DoesNotExist":
                    self.absent.add(each.key)

    def meets(self, other: _Conjunction) -> bool:
        """Whether a node with only the labels that this one asks for can match both."""
        if not other.values.keys() <= self.values.keys():
            return False
        for key, allowed in self.values.items():
            if key in self.absent or key in other.absent:
                return False
            theirs = other.values.get(key)
            both = allowed if theirs is None else theirs if allowed is None else allowed & theirs
            if both is not None:
                both = both - self.excluded.get(key, frozenset()) - other.excluded.get(key, frozenset())
                if not both:
                    return False
        return True

    def _require(self, key: str, values: frozenset[str]) -> None:
        known = self.values.get(key)
        self.values[key] = values if known is None else known & values
