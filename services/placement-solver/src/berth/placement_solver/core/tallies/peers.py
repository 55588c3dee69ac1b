"""The pods of the cluster as other pods' terms see them: who matches which terms on which rows, and who owns terms.

Pods with the same namespace, labels and terms are one *peer class*: whether a class matches a term is worked out once.
What somebody asks about is counted from then on: pods that match given terms, by row. Terms that pods themselves have
(anti-affinity above all) are counted by row as well, since they concern whoever matches them.

`see` is told of every pod of STATE, bound or not, so that the terms of pods that wait are known before one of them is
placed; `apply` is told of every claim. What was charged is remembered with its claim, so a pod may be relabelled or
forgotten in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from berth.contracts.kube import Affinity
from berth.contracts.state import Pod
from berth.placement_solver.core.seams import Charge
from berth.placement_solver.core.tallies.row_counts import RowCounts
from berth.rules.pod_terms import NO_LABELS, NO_TERMS, Peer, PodTerm, PodTerms, compile_pod_terms
from berth.rules.selectors import Labels
from berth.rules.topology_spread import SpreadConstraint
from berth.transaction.claims import Claim, Name

COUNTINGS_MAX: Final = 2048
REACHES_MAX: Final = 8192
GIVEN_UP_MAX: Final = 64
"""How many terms may have lost an owner before it is looked which have none."""

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Kind(Enum):
    """What a term of an existing pod means for one that matches it."""

    REFUSES = auto()
    """Required anti-affinity."""
    REQUIRES = auto()
    """Required affinity."""
    PREFERS = auto()
    """Preferred affinity, or with a negative weight anti-affinity."""


class OwnedTerm:
    """A term that pods own. `counts`: for each row the owners there, or the sum of their weights (`PREFERS`)."""

    __slots__ = ("counts", "kind", "owners", "term")

    def __init__(self, kind: Kind, term: PodTerm) -> None:
        self.kind = kind
        self.term = term
        self.counts = RowCounts()
        self.owners = 0
        """How many classes own it, placed or not."""


class PeerClass:
    """Pods that others cannot tell apart, and that own the same terms."""

    __slots__ = ("countings", "key", "owned", "peer", "rows", "terms", "uses")

    def __init__(self, key: object, peer: Peer, terms: PodTerms) -> None:
        self.key = key
        self.peer = peer
        self.terms = terms
        self.rows: dict[int, int] = {}
        self.uses = 0
        self.countings: list[_Counting] = []
        self.owned: list[tuple[OwnedTerm, int]] = []


class Reach(NamedTuple):
    """The terms of other pods, placed or not, that a pod matches."""

    refusing: list[OwnedTerm]
    rating: list[OwnedTerm]


NO_REACH: Final = Reach([], [])


class _Counting:
    """Pods that pass a test, by row. `namespaces` None: they may be in any."""

    __slots__ = ("counts", "namespaces", "test")

    def __init__(self, test: Callable[[Peer, Labels], bool], namespaces: frozenset[str] | None) -> None:
        self.test = test
        self.namespaces = namespaces
        self.counts = RowCounts()


NO_COUNTINGS: Final[Mapping[int, _Counting]] = {}
ANYWHERE: Final = ""
"""Where countings stand that are not restricted to namespaces."""


class _Charged:
    """What of one holder is charged: its class (None: no pod was seen yet), and how often on which rows."""

    __slots__ = ("cls", "rows")

    def __init__(self, cls: PeerClass | None) -> None:
        self.cls = cls
        self.rows: dict[int, int] = {}


class _Reached:
    """A `Reach`, and how much of the lists of terms it has been compared with."""

    __slots__ = ("anywhere", "listed", "peer", "reach")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.reach = Reach([], [])
        self.listed = 0
        self.anywhere = 0


class Peers:
    """The tally. `relabelled` rises when a placed pod or a namespace is another to terms."""

    counts_kept = False  # nobody is to be placed beside a pod that may never come

    def __init__(self) -> None:
        self.relabelled = 0
        self._namespaces: dict[str, Labels] = {}
        self._known: dict[Name, tuple[str, PeerClass]] = {}
        self._charged: dict[tuple[Name, str], _Charged] = {}
        self._classes: dict[object, PeerClass] = {}
        self._classes_in: dict[str, set[PeerClass]] = {}
        self._countings: OrderedDict[object, _Counting] = OrderedDict()
        self._countings_in: dict[str, dict[int, _Counting]] = {}
        self._owned: dict[object, OwnedTerm] = {}
        self._owned_in: dict[str, list[OwnedTerm]] = {}
        self._owned_anywhere: list[OwnedTerm] = []
        self._given_up = 0
        self._reaches: OrderedDict[object, _Reached] = OrderedDict()

    # --- input -------------------------------------------------------------------------------------------------------

    def apply(self, charge: Charge, sign: int) -> None:
        """See `Tally`."""
        claim, row = charge.claim, charge.row
        key = (claim.name, claim.uid)
        charged = self._charged.get(key)
        if charged is None:
            charged = self._charged[key] = _Charged(self._seen_class(claim))
            if charged.cls is not None:
                charged.cls.uses += 1
        charged.rows[row] = charged.rows.get(row, 0) + sign
        if charged.cls is not None:
            self._count(charged.cls, row, sign)
        if not charged.rows[row]:
            del charged.rows[row]
            if not charged.rows:
                del self._charged[key]
                self._release(charged.cls)

    def see(self, name: Name, pod: Pod | None) -> None:
        """A pod of STATE is new, changed or, with None, deleted. One that has ended is nobody's peer."""
        before = self._known.pop(name, None)
        if pod is not None and pod.phase not in _ENDED:
            cls = self._intern(pod)
            cls.uses += 1
            self._known[name] = (pod.uid, cls)
            charged = self._charged.get((name, pod.uid))
            if charged is not None and charged.cls is not cls:
                self._recharge(charged, cls)
        if before is not None:
            self._release(before[1])

    def see_namespace(self, name: str, labels: Labels | None) -> None:
        """The labels of a namespace; None: it is gone."""
        if labels == self._namespaces.get(name):
            return
        self.relabelled += 1
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        self._reaches.clear()
        for counting in self._countings_for(name):
            for cls in self._classes_in.get(name, ()):
                self._compare(counting, cls)

    def reset(self) -> None:
        """STATE starts over: no pod and no namespace is known; what is charged stays so until it is given back."""
        for name in list(self._known):
            self.see(name, None)
        for namespace in list(self._namespaces):
            self.see_namespace(namespace, None)

    # --- output ------------------------------------------------------------------------------------------------------

    @property
    def namespaces(self) -> Mapping[str, Labels]:
        """The labels of each namespace."""
        return self._namespaces

    @property
    def have_terms(self) -> bool:
        """Whether any pod, placed or not, has terms of its own."""
        return bool(self._owned)

    def labels_of(self, peer: Peer) -> Labels:
        """The labels of the pod's namespace."""
        return self._namespaces.get(peer.namespace, NO_LABELS)

    def class_of(self, claim: Claim) -> PeerClass | None:
        """The peer class of the holder of a claim; None: nobody has seen it, or it is no pod."""
        if claim.is_reservation:
            return None
        charged = self._charged.get((claim.name, claim.uid))
        return charged.cls if charged is not None else self._seen_class(claim)

    def matching(self, terms: tuple[PodTerm, ...]) -> RowCounts:
        """How many pods match all the terms, by row."""
        key = tuple(term.identity for term in terms)
        found = self._countings.get(key)
        if found is not None:
            self._countings.move_to_end(key)
            return found.counts
        listed = [term.namespaces for term in terms if term.selects_namespace is None]
        return self._begin(
            key,
            lambda peer, labels: all(term.matches(peer, labels) for term in terms),
            frozenset.intersection(*listed) if listed else None,
        )

    def counted(self, constraint: SpreadConstraint, namespace: str) -> RowCounts:
        """How many pods of the namespace a constraint counts, by row."""
        key = (namespace, constraint.counts and constraint.identity)
        found = self._countings.get(key)
        if found is not None:
            self._countings.move_to_end(key)
            return found.counts
        return self._begin(key, lambda peer, _: constraint.counted(peer, namespace), frozenset({namespace}))

    def reach(self, peer: Peer) -> Reach:
        """The terms of pods, placed or not, that this pod matches. Some may have no owner any more."""
        if not self._owned:
            return NO_REACH
        key = (peer.namespace, frozenset(peer.labels.items()))
        found = self._reaches.get(key)
        if found is None:
            found = self._reaches[key] = _Reached(peer)
            if len(self._reaches) > REACHES_MAX:
                self._reaches.popitem(last=False)
        else:
            self._reaches.move_to_end(key)
        listed, anywhere = self._owned_in.get(peer.namespace, ()), self._owned_anywhere
        if found.listed < len(listed) or found.anywhere < len(anywhere):
            labels = self.labels_of(peer)
            for owned in (*listed[found.listed :], *anywhere[found.anywhere :]):
                if owned.term.matches(peer, labels):
                    (found.reach.refusing if owned.kind is Kind.REFUSES else found.reach.rating).append(owned)
            found.listed, found.anywhere = len(listed), len(anywhere)
        return found.reach

    def classes(self) -> Collection[PeerClass]:
        """All peer classes in use."""
        return self._classes.values()

    # --- classes -----------------------------------------------------------------------------------------------------

    def _seen_class(self, claim: Claim) -> PeerClass | None:
        known = self._known.get(claim.name)
        return known[1] if known is not None and known[0] == claim.uid else None

    def _intern(self, pod: Pod) -> PeerClass:
        affinity, labels = pod.template.affinity, pod.template.labels
        key: object = (pod.namespace, pod.deleting, frozenset(labels.items()), terms_key(affinity))
        found = self._classes.get(key)
        if found is not None:
            return found
        peer = Peer(pod.namespace, labels, pod.deleting)
        made = self._classes[key] = PeerClass(key, peer, compile_pod_terms(affinity, pod.namespace, labels))
        self._classes_in.setdefault(pod.namespace, set()).add(made)
        for counting in self._countings_for(pod.namespace):
            self._compare(counting, made)
        if made.terms is not NO_TERMS:
            self._own(made)
        return made

    def _release(self, cls: PeerClass | None) -> None:
        if cls is None:
            return
        cls.uses -= 1
        if cls.uses:
            return
        del self._classes[cls.key]
        fellows = self._classes_in[cls.peer.namespace]
        fellows.discard(cls)
        if not fellows:
            del self._classes_in[cls.peer.namespace]
        for owned, _ in cls.owned:
            owned.owners -= 1
        self._given_up += len(cls.owned)
        if self._given_up > GIVEN_UP_MAX and 2 * self._given_up > len(self._owned):
            self._bury()

    def _count(self, cls: PeerClass, row: int, amount: int) -> None:
        there = cls.rows.get(row, 0) + amount
        if there:
            cls.rows[row] = there
        else:
            cls.rows.pop(row, None)
        for counting in cls.countings:
            counting.counts.add(row, amount)
        for owned, weight in cls.owned:
            owned.counts.add(row, amount * weight)

    def _recharge(self, charged: _Charged, cls: PeerClass) -> None:
        self.relabelled += 1
        before, charged.cls = charged.cls, cls
        cls.uses += 1
        for row, amount in charged.rows.items():
            if before is not None:
                self._count(before, row, -amount)
            self._count(cls, row, amount)
        self._release(before)

    # --- what is counted ---------------------------------------------------------------------------------------------

    def _begin(self, key: object, test: Callable[[Peer, Labels], bool], namespaces: frozenset[str] | None) -> RowCounts:
        counting = self._countings[key] = _Counting(test, namespaces)
        for cls in self._classes_of(counting):
            self._compare(counting, cls)
        for namespace in _places_of(counting):
            self._countings_in.setdefault(namespace, {})[id(counting)] = counting
        if len(self._countings) > COUNTINGS_MAX:
            self._end(self._countings.popitem(last=False)[1])
        return counting.counts

    def _end(self, counting: _Counting) -> None:
        for cls in self._classes_of(counting):
            if counting in cls.countings:
                cls.countings.remove(counting)
        for namespace in _places_of(counting):
            there = self._countings_in[namespace]
            del there[id(counting)]
            if not there:
                del self._countings_in[namespace]

    def _compare(self, counting: _Counting, cls: PeerClass) -> None:
        """Count the class from now on, or no longer."""
        matches = counting.test(cls.peer, self.labels_of(cls.peer))
        if matches == (counting in cls.countings):
            return
        if matches:
            cls.countings.append(counting)
        else:
            cls.countings.remove(counting)
        for row, amount in cls.rows.items():
            counting.counts.add(row, amount if matches else -amount)

    def _classes_of(self, counting: _Counting) -> Iterator[PeerClass]:
        if counting.namespaces is None:
            yield from self._classes.values()
        else:
            for namespace in counting.namespaces:
                yield from self._classes_in.get(namespace, ())

    def _countings_for(self, namespace: str) -> Iterator[_Counting]:
        """What pods of the namespace may be counted in."""
        for place in (namespace, ANYWHERE):
            yield from self._countings_in.get(place, NO_COUNTINGS).values()

    # --- terms that pods own -----------------------------------------------------------------------------------------

    def _own(self, cls: PeerClass) -> None:
        found: dict[OwnedTerm, int] = {}
        for kind, weight, term in _terms_of(cls.terms):
            owned = self._owned_term(kind, term)
            found[owned] = found.get(owned, 0) + weight
        cls.owned = list(found.items())
        for owned in found:
            owned.owners += 1

    def _owned_term(self, kind: Kind, term: PodTerm) -> OwnedTerm:
        key = (kind, term.key, term.identity)
        owned = self._owned.get(key)
        if owned is None:
            owned = self._owned[key] = OwnedTerm(kind, term)
            if term.selects_namespace is not None:
                self._owned_anywhere.append(owned)
            else:
                for namespace in term.namespaces:
                    self._owned_in.setdefault(namespace, []).append(owned)
        return owned

    def _bury(self) -> None:
        """Forget the terms that nobody owns any more."""
        self._owned = {key: owned for key, owned in self._owned.items() if owned.owners}
        self._owned_anywhere = [owned for owned in self._owned_anywhere if owned.owners]
        self._owned_in = {
            namespace: alive
            for namespace, each in self._owned_in.items()
            if (alive := [owned for owned in each if owned.owners])
        }
        self._reaches.clear()
        self._given_up = 0


def _places_of(counting: _Counting) -> Iterable[str]:
    return (ANYWHERE,) if counting.namespaces is None else counting.namespaces


def terms_key(affinity: Affinity | None) -> bytes:
    """The terms of a pod as a key: equal where the terms are written alike."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return b""
    return _encode((affinity.pod_affinity, affinity.pod_anti_affinity))


def _terms_of(terms: PodTerms) -> Iterator[tuple[Kind, int, PodTerm]]:
    for term in terms.anti_affinity:
        yield Kind.REFUSES, 1, term
    for term in terms.affinity:
        yield Kind.REQUIRES, 1, term
    for weight, term in terms.preferred:
        yield Kind.PREFERS, weight, term
