"""Which group each class of pods is charged to, and which classes a changed quota may concern."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from berth.quota_manager.core.book import ClassKey


class Payers:
    """An index of the classes that are booked. A change costs what it concerns, however many classes there are."""

    def __init__(self) -> None:
        self._payer: dict[ClassKey, str | None] = {}
        self._classes: dict[str, set[ClassKey]] = {}
        self._naming: dict[str, set[ClassKey]] = {}
        self._within: dict[str, set[ClassKey]] = {}

    def put(self, key: ClassKey, payer: str | None) -> str | None:
        """A class is charged to this group from now on; who it was charged to before."""
        former = self._payer.get(key)
        if key not in self._payer or former != payer:
            self.drop(key)
            self._payer[key] = payer
            for index, name in self._places(key, payer):
                index.setdefault(name, set()).add(key)
        return former

    def drop(self, key: ClassKey) -> None:
        """A class without pods."""
        if key not in self._payer:
            return
        for index, name in self._places(key, self._payer.pop(key)):
            index[name].discard(key)
            if not index[name]:
                del index[name]

    def classes_of(self, group: str) -> set[ClassKey]:
        """The classes that are charged to a group."""
        return self._classes.get(group, set())

    def concerned(self, names: Iterable[str], namespaces: Iterable[str]) -> set[ClassKey]:
        """The classes that name one of these groups, or are of one of these namespaces."""
        found: set[ClassKey] = set()
        for name in names:
            found |= self._naming.get(name, set())
        for namespace in namespaces:
            found |= self._within.get(namespace, set())
        return found

    def _places(self, key: ClassKey, payer: str | None) -> Iterator[tuple[dict[str, set[ClassKey]], str]]:
        if payer is not None:
            yield self._classes, payer
        for name in {key.label, key.paid} - {""}:
            yield self._naming, name
        if not key.label:
            yield self._within, key.namespace
