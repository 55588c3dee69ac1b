"""The running sums over pods are at every moment what a count from scratch gives."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from berth.contracts.state import Pod, PodTemplate
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import Charge
from berth.placement_solver.core.tallies import peers as module
from berth.placement_solver.core.tallies.peers import Kind, Peers
from berth.placement_solver.core.tallies.row_counts import RowCounts
from berth.rules.pod_terms import Peer, PodTerm, compile_pod_terms
from berth.rules.topology_spread import SpreadConstraint, compile_spread
from berth.testing.peer_worlds import NAMESPACES, namespace_labels, pods_of, templates
from berth.transaction.claims import Claim, Name

NODES = ("n0", "n1", "n2")
NAMES = ("p0", "p1", "p2", "p3")


def not_0(counts: RowCounts) -> dict[int, int]:
    """The amounts that are not 0, by row."""
    return {row: amount for row, amount in zip(counts.rows.tolist(), counts.amounts.tolist(), strict=True) if amount}


class PeersMachine(RuleBasedStateMachine):
    """Pods are seen, relabelled, deleted, made anew; claims come and go, also before their pods are seen."""

    @initialize()
    def begin(self) -> None:
        self.nodes = Nodes()
        self.peers = Peers()
        self.seen: dict[Name, Pod] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.claims: list[tuple[Claim, Pod | None]] = []
        self.terms: list[PodTerm] = []
        self.constraints: list[tuple[SpreadConstraint, str]] = []

    @rule(pod=st.sampled_from(NAMES).flatmap(pods_of), life=st.sampled_from("ab"))
    def see(self, pod: Pod, life: str) -> None:
        pod = msgspec.structs.replace(pod, namespace=NAMESPACES[int(pod.name[1]) % 2], uid=f"{pod.name}-{life}")
        name = (pod.namespace, pod.name)
        self.seen[name] = pod
        self.peers.see(name, pod)
        self.claims = [
            (claim, pod if claim.name == name and claim.uid == pod.uid else before) for claim, before in self.claims
        ]

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.seen)))
        del self.seen[name]
        self.peers.see(name, None)

    @precondition(lambda self: self.seen)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A pod that has ended is nobody's peer, but for what is still charged for it."""
        name = data.draw(st.sampled_from(sorted(self.seen)))
        pod = self.seen.pop(name)
        self.peers.see(name, msgspec.structs.replace(pod, phase="Succeeded"))

    @rule(name=st.sampled_from(NAMES), life=st.sampled_from("ab"), node=st.sampled_from(NODES))
    def charge(self, name: str, life: str, node: str) -> None:
        key = (NAMESPACES[int(name[1]) % 2], name)
        claim = Claim(key, f"{name}-{life}", node, {})
        pod = self.seen.get(key)
        of_another = [before for other, before in self.claims if (other.name, other.uid) == (claim.name, claim.uid)]
        if of_another:
            pod = of_another[0]
        elif pod is not None and pod.uid != claim.uid:
            pod = None
        self.claims.append((claim, pod))
        self.peers.apply(Charge(claim, self.nodes.row(claim.node)), 1)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        claim, _ = self.claims.pop(data.draw(st.integers(0, len(self.claims) - 1)))
        self.peers.apply(Charge(claim, self.nodes.row(claim.node)), -1)

    @rule(name=st.sampled_from(NAMESPACES), labels=st.one_of(st.none(), namespace_labels))
    def label_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        self.peers.see_namespace(name, labels)
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels

    @rule()
    def reset(self) -> None:
        self.peers.reset()
        self.seen.clear()
        self.namespaces.clear()

    @rule(template=templates, namespace=st.sampled_from(NAMESPACES))
    def ask(self, template: PodTemplate, namespace: str) -> None:
        terms = compile_pod_terms(template.affinity, namespace, template.labels)
        self.terms += [*terms.affinity, *terms.anti_affinity]
        self.constraints += [
            (each, namespace) for each in compile_spread(template.topology_spread, template.labels).hard
        ]

    @invariant()
    def sums_are_those_of_a_recount(self) -> None:
        if not hasattr(self, "peers"):
            return
        placed = [(claim, peer_of(pod), pod) for claim, pod in self.claims if pod is not None]
        for term in self.terms:
            matching = [claim for claim, peer, _ in placed if term.matches(peer, self.labels_of(peer))]
            assert not_0(self.peers.matching((term,))) == self.by_row(matching)
        if len(self.terms) > 1:
            both = tuple(self.terms[-2:])
            matching = [
                claim for claim, peer, _ in placed if all(term.matches(peer, self.labels_of(peer)) for term in both)
            ]
            assert not_0(self.peers.matching(both)) == self.by_row(matching)
        for constraint, namespace in self.constraints:
            counted = [claim for claim, peer, _ in placed if constraint.counted(peer, namespace)]
            assert not_0(self.peers.counted(constraint, namespace)) == self.by_row(counted)
        for pod in self.seen.values():
            reach = self.peers.reach(peer_of(pod))
            refusing = dict.fromkeys(range(len(self.nodes)), 0)
            rating = dict(refusing)
            for claim, _, owner in placed:
                terms = compile_pod_terms(owner.template.affinity, owner.namespace, owner.template.labels)
                row = self.nodes.row(claim.node)
                labels = self.labels_of(peer_of(pod))
                refusing[row] += sum(term.matches(peer_of(pod), labels) for term in terms.anti_affinity)
                rating[row] += sum(
                    weight * term.matches(peer_of(pod), labels)
                    for weight, term in (*terms.preferred, *((100, term) for term in terms.affinity))
                )
            for row in refusing:
                assert sum(owned.counts.of(row) for owned in reach.refusing) == refusing[row]
                weights = {Kind.PREFERS: 1, Kind.REQUIRES: 100}
                assert sum(weights[owned.kind] * owned.counts.of(row) for owned in reach.rating) == rating[row]
        known = {*(claim.uid for claim, pod in self.claims if pod is not None), *(p.uid for p in self.seen.values())}
        assert len(self.peers.classes()) <= 2 * len(known)
        assert self.peers.classes() or not known

    def labels_of(self, peer: Peer) -> dict[str, str]:
        return self.namespaces.get(peer.namespace, {})

    def by_row(self, claims: list[Claim]) -> dict[int, int]:
        found: dict[int, int] = {}
        for claim in claims:
            row = self.nodes.row(claim.node)
            found[row] = found.get(row, 0) + 1
        return found


def peer_of(pod: Pod) -> Peer:
    return Peer(pod.namespace, pod.template.labels, pod.deleting)


class TestPeers(PeersMachine.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


class TestPeersThatForget(PeersMachine.TestCase):  # type: ignore[misc, name-defined]
    """What was asked about longest ago is dropped, and counted again when it comes back."""

    settings = settings(max_examples=40, stateful_step_count=30, deadline=None)

    @pytest.fixture(autouse=True)
    def tight(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "COUNTINGS_MAX", 2)
        monkeypatch.setattr(module, "REACHES_MAX", 1)
        monkeypatch.setattr(module, "GIVEN_UP_MAX", 0)
