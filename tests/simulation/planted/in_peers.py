"""Bugs in how the solver counts pods that must be apart, together or spread. Its verifier makes the same mistake: else
no such plan would be committed."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest.mock import patch

import msgspec

from berth.placement_solver.core.constraints.inter_pod_affinity import InterPodAffinity
from berth.placement_solver.core.constraints.pod_topology_spread import PodTopologySpread
from berth.placement_solver.core.tallies.peers import NO_REACH, Peers
from berth.placement_solver.core.trial import Trial
from berth.placement_solver.core.verify import verifier
from berth.transaction.claims import Claim

Planted = AbstractContextManager[object]


def _believed(*patches: Any) -> Planted:
    """With these patches, and a verifier that agrees."""
    stack = ExitStack()
    stack.enter_context(patch.object(verifier, "affinity_problems", lambda *_: ()))
    stack.enter_context(patch.object(verifier, "spread_problems", lambda *_: ()))
    for each in patches:
        stack.enter_context(each)
    return stack


def trials_uncounted() -> Planted:
    """What a plan has placed already is nobody's peer until it is committed."""
    real, tried = Peers.apply, set[int]()
    add, undo = Trial.add, Trial.undo

    def adding(self: Trial, claim: Claim) -> None:
        tried.add(1)
        try:
            add(self, claim)
        finally:
            tried.clear()

    def undoing(self: Trial, back_to: int = 0) -> None:
        tried.add(1)
        try:
            undo(self, back_to)
        finally:
            tried.clear()

    def apply(self: Peers, claim: Claim, sign: int) -> None:
        if not tried:
            real(self, claim, sign)

    return _believed(
        patch.object(Trial, "add", adding), patch.object(Trial, "undo", undoing), patch.object(Peers, "apply", apply)
    )


def terminating_counted() -> Planted:
    """A pod that is terminating counts for the spread of others."""
    real = Peers._intern

    def intern(self: Peers, pod: Any) -> Any:
        return real(self, msgspec.structs.replace(pod, deleting=False))

    return _believed(patch.object(Peers, "_intern", intern))


def guards_ignored() -> Planted:
    """Pods that are there keep nobody away."""
    return _believed(patch.object(Peers, "reach", lambda self, peer: NO_REACH))


def always_first() -> Planted:
    """Who matches its own affinity may be the first of its group, wherever the others are."""
    real = InterPodAffinity._company

    def company(self: InterPodAffinity, pod: Any, wanted: Any) -> Any:
        found = real(self, pod, wanted)
        if self._matches_itself(pod):
            found[:] = True
            for term in pod.terms.affinity:
                found &= self._domains(term.key).codes != 0
        return found

    return _believed(patch.object(InterPodAffinity, "_company", company))


def relabelled_unseen() -> Planted:
    """A pod counts by the labels that it was placed with."""
    return _believed(patch.object(Peers, "_recharge", lambda self, charged, cls: None))


def no_account() -> Planted:
    """Plans whose pods must be apart, together or spread share nothing."""
    return _believed(
        patch.object(InterPodAffinity, "accounts", lambda *_: ()),
        patch.object(PodTopologySpread, "accounts", lambda *_: ()),
    )
