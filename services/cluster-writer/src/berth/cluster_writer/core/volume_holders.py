"""Who uses which claim, and which decisions keep which volume: the last check of what nodes do not hold (R11)."""

from __future__ import annotations

from collections.abc import Iterable

from berth.cluster_writer.core.last_check import Clash
from berth.contracts.ledger import Decision, Step
from berth.contracts.state import Pod, VolumeUse
from berth.rules.storage import CLAIM_SOURCE, ClaimName, StorageObjects, is_for_one_pod
from berth.transaction.book import Book
from berth.transaction.claims import Claim, Name


class VolumeHolders:
    """Names of pods by the claims that they name, and of decisions by the volumes that they keep."""

    def __init__(self) -> None:
        self._users: dict[ClaimName, set[Name]] = {}
        self._named: dict[Name, frozenset[ClaimName]] = {}
        self._keepers: dict[str, set[Name]] = {}

    def clear(self) -> None:
        """No pod is seen any more; decisions go on keeping what they keep."""
        self._users.clear()
        self._named.clear()

    def see_pod(self, name: Name, pod: Pod | None) -> None:
        """A pod is shown, or (None) no longer."""
        named = _named_by(name[0], pod.template.volumes) if pod is not None and pod.template.volumes else frozenset()
        before = self._named.pop(name, frozenset())
        if named:
            self._named[name] = named
        for claim in before - named:
            _discard(self._users, claim, name)
        for claim in named - before:
            self._users.setdefault(claim, set()).add(name)

    def see_decision(self, name: Name, decision: Decision | None) -> None:
        """A decision was read."""
        for step in decision.before if decision is not None else ():
            if step.volume:
                self._keepers.setdefault(step.volume, set()).add(name)

    def clash(self, decision: Decision, book: Book, storage: StorageObjects) -> Clash | None:
        """The volume that is kept for another claim too, or the claim that one pod alone may use and another uses."""
        found = None
        for step in decision.before:
            holder = self._other_keeper(decision, step, book) if step.volume else None
            if holder is not None:
                text = f"volume {step.volume} is kept for another claim by the decision of {'/'.join(holder.name)}"
                found = Clash(text, holder.is_ours)
                if holder.is_ours:
                    return found
        pod = (decision.namespace, decision.name)
        for name in sorted(self._named.get(pod, ())):
            claim = storage.claim(name)
            if claim is None or not is_for_one_pod(claim):
                continue
            for other in sorted(self._users.get(name, set()) - {pod}):
                holder = next(iter(book.claims_of(other)), None)
                if holder is not None:
                    found = Clash(
                        f"claim {name[1]} may be used by one pod only, and {other[1]} uses it", holder.is_ours
                    )
                    if holder.is_ours:
                        return found
        return found

    def _other_keeper(self, decision: Decision, step: Step, book: Book) -> Claim | None:
        keepers = self._keepers.get(step.volume, set())
        for name in sorted(keepers):
            kept = [each for claim in book.claims_of(name) for each in claim.before if each.volume == step.volume]
            if not kept:
                _discard(self._keepers, step.volume, name)
            elif any(each.claim_uid != step.claim_uid for each in kept):
                return next(claim for claim in book.claims_of(name) if any(each in kept for each in claim.before))
        return None


def _named_by(namespace: str, volumes: Iterable[VolumeUse]) -> frozenset[ClaimName]:
    return frozenset((namespace, volume.claim) for volume in volumes if volume.source == CLAIM_SOURCE)


def _discard(index: dict[ClaimName, set[Name]] | dict[str, set[Name]], key: object, name: Name) -> None:
    found = index[key]  # type: ignore[index]
    found.discard(name)
    if not found:
        del index[key]  # type: ignore[arg-type]
