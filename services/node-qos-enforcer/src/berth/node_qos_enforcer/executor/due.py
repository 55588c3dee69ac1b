"""Which files are looked at in a round: those of which a strategy says something new, those that do not have their
value yet, those of whole classes, and of the others, which have theirs, each in its turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from typing import Final, NamedTuple
from zlib import crc32

from berth.node_qos_enforcer.core.cgroup_files import Version
from berth.node_qos_enforcer.core.cgroup_paths import DRIVERS, pod_id_of
from berth.node_qos_enforcer.core.compose import Composed
from berth.node_qos_enforcer.core.strategies.knobs import Knob
from berth.node_qos_enforcer.core.strategies.seam import Ref

CHECK_ROUNDS: Final = 60
"""A file whose value is settled is looked at once in so many rounds, as Koordinator's agent looks once a minute; those
of whole classes in each."""
LACKING_ROUNDS: Final = 60
"""A file that the kernel does not have is looked for once in so many; of those of a knob that it has nowhere, one file
speaks for the others of the round."""
CLASS_DEPTH: Final = 1


class Place(NamedTuple):
    """Where a file is, and which version of control groups it belongs to.

    `turn` says in which round it is looked at although it is settled; None: in each. `is_kept`: it is read as a whole
    at once, and its folder is nobody else's ever, so that it may stay open.
    """

    path: str
    version: Version
    folder: str
    turn: int | None = None
    is_kept: bool = False


def place_of(ref: Ref, knob: Knob, path: str, version: Version, folder: str) -> Place:
    """The place of a file, with its turn."""
    depth, name = ref.group.count("/"), ref.group.rpartition("/")[2]
    is_own = depth > CLASS_DEPTH or (depth == CLASS_DEPTH and any(pod_id_of(driver, name) for driver in DRIVERS))
    turn = crc32(ref.group.encode()) if is_own else None
    return Place(path, version, folder, turn, is_own and knob.root == "cgroup" and knob.kind != "ids")


class _Known(NamedTuple):
    value: str
    turn: int | None


class Due:
    """What is wanted, and how it stands. `paths` are those of all that is wanted or kept."""

    def __init__(self) -> None:
        """Nothing is wanted."""
        self.paths: dict[str, Ref] = {}
        self._known: dict[Ref, _Known] = {}
        self._nowhere: dict[Ref, str] = {}
        self._turns: list[dict[Ref, None]] = [{} for _ in range(CHECK_ROUNDS)]
        self._looked_for: list[dict[Ref, None]] = [{} for _ in range(LACKING_ROUNDS)]
        self._each: dict[Ref, None] = {}
        self._open: dict[Ref, None] = {}
        self._lacking: set[Ref] = set()
        self._lacking_of: Counter[str] = Counter()
        self._known_of: Counter[str] = Counter()
        self._keyed: set[Ref] = set()
        self._rounds = 0

    @property
    def is_full_turn(self) -> bool:
        """Whether every settled file has had its turn once more."""
        return self._rounds % CHECK_ROUNDS == 0

    @property
    def lacking(self) -> frozenset[str]:
        """Knobs that are wanted and that this kernel does not have."""
        return frozenset(self._lacking_of).union(self._nowhere.values())

    def take(self, wanted: Composed, touched: Set[Ref] | None, place: Callable[[Ref], Place | None]) -> bool:
        """A round begins. Returns whether files are wanted that were not before, or are not any more.

        Args:
            wanted: what files are to have.
            touched: of which files it may be news; None: of any.
            place: where a file is; None: this machine has none of this kind.
        """
        self._rounds += 1
        values = wanted.values
        if touched is None:
            gone = [ref for ref in (*self._known, *self._nowhere) if ref not in values]
            news = [ref for ref, value in values.items() if self._is_news(ref, value)]
        else:
            gone = [ref for ref in touched if ref not in values and (ref in self._known or ref in self._nowhere)]
            news = sorted(ref for ref in touched if ref in values and self._is_news(ref, values[ref]))
        # One that was kept and is nobody's any more was never among those with a value.
        is_other = bool(gone) or touched is None or any(ref not in values for ref in touched)
        for ref in gone:
            self._drop(ref)
        for ref in news:
            is_other |= self._add(ref, values[ref], place(ref))
        if is_other:
            # Several lines are one file.
            self.paths = {where.path: ref for ref in (*wanted.kept, *values) if (where := place(ref)) is not None}
        return is_other

    def _is_news(self, ref: Ref, value: str) -> bool:
        known = self._known.get(ref)
        return known is None or known.value != value

    def _add(self, ref: Ref, value: str, place: Place | None) -> bool:
        """Whether it was not wanted before."""
        before = self._known.get(ref)
        if place is None:
            is_new = ref not in self._nowhere
            self._drop(ref)
            self._nowhere[ref] = ref.knob
            return is_new
        self._nowhere.pop(ref, None)
        self._known[ref] = _Known(value, place.turn)
        if before is None:
            self._known_of[ref.knob] += 1
            self._row(place.turn)[ref] = None
            if ref.key:
                self._keyed.add(ref)
        self._open[ref] = None
        return before is None

    def _drop(self, ref: Ref) -> None:
        self._nowhere.pop(ref, None)
        known = self._known.pop(ref, None)
        if known is not None:
            self._known_of[ref.knob] -= 1
            self._has(ref, known.turn)
            self._row(known.turn).pop(ref, None)
        self._keyed.discard(ref)
        self._open.pop(ref, None)

    def _row(self, turn: int | None) -> dict[Ref, None]:
        return self._each if turn is None else self._turns[turn % CHECK_ROUNDS]

    def keys(self, wanted: Composed) -> Mapping[tuple[str, str], Set[str]]:
        """The lines and words that are wanted or kept, by group and knob."""
        found: dict[tuple[str, str], set[str]] = {}
        for ref in (*self._keyed, *wanted.kept):
            if ref.key:
                found.setdefault((ref.group, ref.knob), set()).add(ref.key)
        return found

    def refs(self) -> list[Ref]:
        """Those of this round."""
        settled, lacking = self._turns[self._rounds % CHECK_ROUNDS], dict[object, Ref]()
        for ref in self._looked_for[self._rounds % LACKING_ROUNDS]:
            is_nowhere = self._lacking_of[ref.knob] == self._known_of[ref.knob]
            lacking[ref.knob if is_nowhere else ref] = ref
        return list(dict.fromkeys((*self._each, *self._open, *settled, *lacking.values())))

    def is_settled(self, ref: Ref) -> bool:
        """Whether it had its value when it was looked at last."""
        return ref not in self._open and ref not in self._lacking

    def settle(self, ref: Ref) -> None:
        """It has its value."""
        self._open.pop(ref, None)

    def unsettle(self, ref: Ref) -> None:
        """Whether it has is not known any more."""
        self._open[ref] = None
        if ref in self._lacking:
            self._has(ref, self._known[ref].turn)

    def lacks(self, ref: Ref) -> None:
        """The kernel has no such file in a group that is there."""
        self._open.pop(ref, None)
        if ref not in self._lacking:
            turn = self._known[ref].turn
            self._lacking.add(ref)
            self._lacking_of[ref.knob] += 1
            if turn is not None:
                self._row(turn).pop(ref, None)
                self._looked_for[turn % LACKING_ROUNDS][ref] = None

    def _has(self, ref: Ref, turn: int | None) -> None:
        if ref in self._lacking:
            self._lacking.discard(ref)
            self._lacking_of[ref.knob] -= 1
            if not self._lacking_of[ref.knob]:
                del self._lacking_of[ref.knob]
            if turn is not None:
                self._looked_for[turn % LACKING_ROUNDS].pop(ref, None)
                self._row(turn)[ref] = None
