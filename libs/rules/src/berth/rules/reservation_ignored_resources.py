"""Extended resources that a configuration takes out of the amounts of Reservations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from berth.rules.node_fit import is_extended_resource


class IgnoredResources:
    """By full name, or by the domain before the first slash. Kubernetes' own resources are always looked at."""

    def __init__(self, names: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._groups = frozenset(groups)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not is_extended_resource(name):
            return False
        return name in self._names or name.partition("/")[0] in self._groups

    def __bool__(self) -> bool:
        return bool(self._names or self._groups)


NONE_IGNORED: Final = IgnoredResources()
