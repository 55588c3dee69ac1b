"""Marks: which pods are to leave, and for whom, as their annotations say (docs/evictions.md, E4 to E6)."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator

from berth.contracts.state import Pod
from berth.rules.eviction_notes import Mark, noted_mark
from berth.transaction.claims import Name


class Marks:
    """The marks of a view's pods, by pod and by the uid of the beneficiary."""

    def __init__(self) -> None:
        self._of: dict[Name, Mark] = {}
        self._for: dict[str, set[Name]] = {}

    def clear(self) -> None:
        """The view starts over."""
        self._of.clear()
        self._for.clear()

    def see(self, name: Name, pod: Pod | None) -> None:
        """A pod was written or, with None, deleted. One that is not bound leaves for nobody."""
        old = self._of.pop(name, None)
        if old is not None:
            names = self._for[old.uid]
            names.discard(name)
            if not names:
                del self._for[old.uid]
        mark = noted_mark(pod.template.annotations) if pod is not None and pod.node else None
        if mark is not None:
            self._of[name] = mark
            self._for.setdefault(mark.uid, set()).add(name)

    def of(self, name: Name) -> Mark | None:
        """The mark of a pod."""
        return self._of.get(name)

    def leaving_for(self, uid: str) -> Iterator[tuple[Name, Mark]]:
        """Who is marked for a beneficiary, by name."""
        for name in sorted(self._for.get(uid, ())):
            yield name, self._of[name]

    def items(self) -> ItemsView[Name, Mark]:
        """All marks."""
        return self._of.items()

    def __iter__(self) -> Iterator[Name]:
        return iter(self._of)
