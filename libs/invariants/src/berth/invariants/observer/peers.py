"""Pods as the terms of other pods see them, from their decisions to their ends; and which of it a decision knew.

A decision says through which version of pods its solver's view was complete (`basis`). Of LEDGER it knows each decision
that it shares an account with (R1, R2), or has to. What lies further back than the lag everybody has seen. All else its
solver may have known, or not: a law holds a decision only to what is wrong either way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts import kube
from berth.contracts.ledger import Decision
from berth.contracts.state import PodTemplate
from berth.contracts.subjects import peers_account
from berth.invariants.counts import Excuse
from berth.invariants.observer.calm import NEVER
from berth.invariants.observer.doubt import Doubt
from berth.invariants.observer.holds import Hold
from berth.invariants.observer.pods import NO_TEXTS, Watched, version_of
from berth.invariants.observer.sight import Reader, Sight
from berth.rules.pod_terms import NO_LABELS, Peer, PodTerm, PodTerms, compile_pod_terms
from berth.rules.selectors import Labels
from berth.rules.topology_spread import Incoming, SpreadConstraint, compile_spread, incoming_of

PAST_MAX: Final = 256
"""How many ends are kept before it is looked which of them everybody has seen."""
TAINTS: Final = ""
"""Stands for a node's taints among the keys of its labels."""


class Place(NamedTuple):
    """What of a node decides in which domains it lies."""

    name: str
    labels: Mapping[str, str]
    taints: list[kube.Taint]


@dataclass(slots=True, eq=False)
class Look:
    """A pod with its own terms and hard constraints, from this version on; the terms have been so from the first."""

    peer: Peer
    terms: PodTerms
    hard: tuple[SpreadConstraint, ...]
    incoming: Incoming
    version: int
    since_s: float
    first_version: int
    first_s: float
    accounts: frozenset[str]
    """Those that each plan with this pod has to stamp for its terms and constraints."""

    def meets(self, other: Look) -> bool:
        """Whether plans with either pod have to share an account."""
        return not self.accounts.isdisjoint(other.accounts)


@dataclass(slots=True, eq=False)
class Spot:
    """A pod on a node, by its decision or bound. `is_relabelled`: since it was decided."""

    uid: str
    text: str
    is_ours: bool
    look: Look
    node: str
    since_s: float
    decision: Decision | None = None
    bound_version: int = 0
    is_relabelled: bool = False
    ended_version: int = 0
    ended_s: float = NEVER

    def is_matched_in(self, term: PodTerm, namespaces: Mapping[str, Labels]) -> bool:
        """Whether the term means this pod."""
        peer = self.look.peer
        return term.matches(peer, namespaces.get(peer.namespace, NO_LABELS))


class Peers:
    """Who is where, who was a moment ago, and the labels of nodes and namespaces."""

    def __init__(self, sight: Sight, doubt: Doubt) -> None:
        self.looks: dict[str, Look] = {}
        self.spots: dict[str, Spot] = {}
        self.guards: dict[str, Spot] = {}
        """Those of the spots whose pod has required anti-affinity."""
        self.places: dict[str, Place] = {}
        self.namespaces: dict[str, Labels] = {}
        self._past: list[Spot] = []
        self._changed_s: dict[str, float] = {}
        self._changed_at: dict[tuple[str, str], float] = {}
        """When a label of nodes, by its key, was changed for the last time; and that of one node."""
        self._namespaces_s = -NEVER
        self.sight = sight
        self._doubt = doubt

    # --- what is fed in ----------------------------------------------------------------------------------------------

    def see(self, data: Mapping[str, Any]) -> None:
        """A pod as it is now. Raises msgspec.ValidationError."""
        meta = data["metadata"]
        uid, labels = meta["uid"], meta.get("labels") or NO_TEXTS
        is_deleting = "deletionTimestamp" in meta
        known = self.looks.get(uid)
        if known is not None and known.peer.labels == labels and known.peer.deleting == is_deleting:
            return
        self.looks[uid] = look = _read(data, labels, is_deleting, self.sight.now_s)
        if known is not None:
            look.first_version, look.first_s = known.first_version, known.first_s
        spot = self.spots.get(uid)
        if spot is not None:
            self._end(uid, look.version)
            is_relabelled = spot.is_relabelled or spot.look.peer.labels != labels
            self._begin(
                Spot(
                    uid=uid,
                    text=spot.text,
                    is_ours=spot.is_ours,
                    look=look,
                    node=spot.node,
                    since_s=spot.since_s,
                    decision=spot.decision,
                    bound_version=spot.bound_version,
                    is_relabelled=is_relabelled,
                )
            )

    def gone(self, uid: str, version: int) -> None:
        """A pod was deleted, with this version."""
        self._end(uid, version)
        self.looks.pop(uid, None)

    def put(self, pod: Watched, hold: Hold | None, decision: Decision | None) -> None:
        """What the pod holds now, and its decision, if LEDGER has one."""
        spot = self.spots.get(pod.uid)
        if hold is None:
            if spot is not None:
                self._end(pod.uid, pod.version if pod.has_ended else 0)
            return
        look = self.looks.get(pod.uid)
        if look is None:
            return
        if spot is None or spot.node != hold.node:
            self._end(pod.uid, 0)
            spot = Spot(pod.uid, pod.text, pod.is_ours, look, hold.node, self.sight.now_s)
            self._begin(spot)
        if hold.is_bound:
            spot.bound_version = spot.bound_version or pod.version
        elif decision is not None and spot.decision is not decision:
            spot.decision, spot.since_s = decision, self.sight.now_s

    def see_node(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A node: its labels and taints."""
        name = data["metadata"]["name"]
        before, now = self.places.get(name), None
        if not deleted:
            taints = msgspec.convert((data.get("spec") or {}).get("taints") or [], list[kube.Taint])
            now = Place(name, data["metadata"].get("labels") or NO_TEXTS, taints)
        if now == before:
            return
        if now is None:
            del self.places[name]
        else:
            self.places[name] = now
        for key in _differing(before, now):
            self._changed_s[key] = self._changed_at[name, key] = self.sight.now_s

    def see_namespace(self, data: Mapping[str, Any], deleted: bool) -> None:
        """A namespace: its labels."""
        name = data["metadata"]["name"]
        labels = NO_LABELS if deleted else data["metadata"].get("labels") or NO_LABELS
        if labels != self.namespaces.get(name, NO_LABELS):
            self.namespaces[name] = labels
            self._namespaces_s = self.sight.now_s

    # --- where pods are ----------------------------------------------------------------------------------------------

    def others(self, uid: str) -> Iterator[tuple[Spot, Place]]:
        """Everybody else that is on a node which is there."""
        return self._there(self.spots.values(), uid)

    def guarded(self, uid: str) -> Iterator[tuple[Spot, Place]]:
        """Those of them that have required anti-affinity."""
        return self._there(self.guards.values(), uid)

    def maybe_there(self, decision: Decision) -> Iterator[tuple[Spot, Place]]:
        """Whom the decision may have counted although they are gone, or were others by then."""
        if len(self._past) > PAST_MAX:
            self._past = [each for each in self._past if not self.sight.has_seen(Reader.SOLVER, each.ended_s)]
        for spot, place in self._there(self._past, decision.uid):
            if not self._knew(decision, spot.ended_version, spot.ended_s):
                yield spot, place

    def _there(self, spots: Iterable[Spot], uid: str) -> Iterator[tuple[Spot, Place]]:
        for spot in spots:
            place = self.places.get(spot.node)
            if place is not None and spot.uid != uid:
                yield spot, place

    # --- what a decision knew ----------------------------------------------------------------------------------------

    def knew(self, decision: Decision, spot: Spot, *, meets: bool) -> bool:
        """Whether the decision must have counted this pod where it is, as it is. `meets`: their plans have to share an
        account."""
        return self.knew_look(decision, spot.look) and self._knew_place(decision, spot, meets=meets)

    def knew_owner(self, decision: Decision, spot: Spot) -> bool:
        """Whether it must have counted this pod as one that owns a term, whose account both plans stamp."""
        look = spot.look
        knew_terms = self._knew(decision, look.first_version, look.first_s)
        return knew_terms and self._knew_place(decision, spot, meets=True)

    def knew_look(self, decision: Decision, look: Look) -> bool:
        """Whether the solver must have seen the pod like this."""
        return self._knew(decision, look.version, look.since_s)

    def _knew_place(self, decision: Decision, spot: Spot, *, meets: bool) -> bool:
        if self._knew(decision, spot.bound_version, spot.since_s):
            return True
        other = spot.decision
        if other is None or self._doubt.covers((decision.uid, spot.uid)):
            return False
        return meets or other.plan == decision.plan or not set(other.accounts).isdisjoint(decision.accounts)

    def why_not(self, decision: Decision, spot: Spot) -> Excuse:
        """Why the decision may not have counted a pod."""
        if self._doubt.covers((decision.uid, spot.uid)):
            return Excuse.LOSS
        if not spot.is_ours:
            return Excuse.STRANGER
        return self.sight.excuse(max(spot.since_s, spot.look.since_s))

    def unseen_change(self, keys: Iterable[str] | None) -> float | None:
        """When one of these labels of nodes (None: any), or one of a namespace, was changed, if not everybody can have
        seen it."""
        moments = [self._changed_s.get(key, -NEVER) for key in sorted(self._changed_s if keys is None else keys)]
        for at_s in (self._namespaces_s, *moments):
            if not self.sight.has_seen(Reader.SOLVER, at_s):
                return at_s
        return None

    def was_moved(self, node: str, key: str, since_s: float) -> bool:
        """Whether this label of the node has changed since then."""
        return self._changed_at.get((node, key), -NEVER) > since_s

    def _knew(self, decision: Decision, version: int, at_s: float) -> bool:
        """Whether the solver must have seen what was so from this version of pods (0: of none) and this moment on."""
        return 0 < version <= decision.basis or self.sight.has_seen(Reader.SOLVER, at_s)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _begin(self, spot: Spot) -> None:
        self.spots[spot.uid] = spot
        if spot.look.terms.anti_affinity:
            self.guards[spot.uid] = spot

    def _end(self, uid: str, version: int) -> None:
        spot = self.spots.pop(uid, None)
        self.guards.pop(uid, None)
        if spot is not None:
            spot.ended_version, spot.ended_s = version, self.sight.now_s
            self._past.append(spot)


def _read(data: Mapping[str, Any], labels: Labels, is_deleting: bool, now_s: float) -> Look:
    spec, namespace = data.get("spec") or {}, data["metadata"].get("namespace") or ""
    affinity = msgspec.convert(spec.get("affinity"), kube.Affinity | None)
    spread = spec.get("topologySpreadConstraints")
    hard: tuple[SpreadConstraint, ...] = ()
    if spread:
        hard = compile_spread(msgspec.convert(spread, list[kube.TopologySpreadConstraint]), labels).hard
    template = PodTemplate(
        labels=dict(labels),
        node_selector=spec.get("nodeSelector") or {},
        affinity=affinity,
        tolerations=msgspec.convert(spec.get("tolerations") or [], list[kube.Toleration]),
    )
    terms = compile_pod_terms(affinity, namespace, labels)
    accounts = {_account_of(term) for term in (*terms.affinity, *terms.anti_affinity)}
    return Look(
        peer=Peer(namespace, labels, is_deleting),
        terms=terms,
        hard=hard,
        incoming=incoming_of(template, namespace),
        version=version_of(data),
        since_s=now_s,
        first_version=version_of(data),
        first_s=now_s,
        accounts=frozenset(accounts | ({peers_account(namespace)} if hard else set())),
    )


def _account_of(term: PodTerm) -> str:
    is_wide = term.selects_namespace is not None or len(term.namespaces) != 1
    return peers_account("" if is_wide else next(iter(term.namespaces)))


def _differing(before: Place | None, now: Place | None) -> set[str]:
    """The keys of labels that differ."""
    old, new = (each.labels if each is not None else NO_TEXTS for each in (before, now))
    keys = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    return keys | ({TAINTS} if before is None or now is None or before.taints != now.taints else set())
