"""Which pods are charged, where, and as what they are shown: looked up once for all tallies.

A tally is told of a pod as it was when that was charged, so that the same is given back, whatever the pod says by then.
One that is shown later, otherwise or no longer is charged anew by those tallies to which that makes a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from berth.contracts.state import Pod
from berth.placement_solver.core.seams import Charge, PodTally, Tally
from berth.transaction.claims import Claim, Name


def _nobody(name: Name) -> Pod | None:
    return None


class Charges:
    """What holds, and what is tried. `objects` shows the pod of a name, as it is now."""

    def __init__(self, objects: Callable[[Name], Pod | None] = _nobody) -> None:
        self._objects = objects
        self._held: dict[Name, tuple[Charge, ...]] = {}
        self._tallies: tuple[Tally, ...] = ()
        self._of_kept: tuple[Tally, ...] = ()
        self._of_pods: tuple[PodTally, ...] = ()

    def tell(self, *tallies: Tally) -> None:
        """Tell these, too, of what comes and goes from now on."""
        self._tallies += tallies
        self._of_kept = tuple(each for each in self._tallies if each.counts_kept)
        self._of_pods = tuple(each for each in self._tallies if isinstance(each, PodTally))

    def apply(self, claim: Claim, row: int, sign: int, *, is_kept: bool = False) -> None:
        """Charge (1) or give back (-1) the claim of a pod on the row of its node; `is_kept`: see `Tally`."""
        name = claim.name
        held = self._held.get(name, ())
        if sign > 0:
            charge = Charge(claim, row, self.pod_of(claim), is_kept=is_kept)
            self._held[name] = (*held, charge) if held else (charge,)
        else:
            found = _held_for(held, claim, row, is_kept=is_kept)
            if found is None:
                return
            charge = found
            charge.claim = claim  # whoever is lifted for a while goes on being charged to its quota
            if len(held) > 1:
                self._held[name] = tuple(each for each in held if each is not charge)
            else:
                del self._held[name]
        for tally in self._of_kept if is_kept else self._tallies:
            tally.apply(charge, sign)

    def see(self, name: Name, pod: Pod | None) -> None:
        """A pod is shown, perhaps after its claim, is shown otherwise, or (None) no longer."""
        for charge in self._held.get(name, ()):
            shown = pod if pod is not None and pod.uid == charge.uid else None
            before = charge.pod
            if shown is before:
                continue
            others = [
                each
                for each in self._of_pods
                if (each.counts_kept or not charge.is_kept) and each.tells_apart(before, shown)
            ]
            for tally in others:
                tally.apply(charge, -1)
            charge.pod = shown
            for tally in others:
                tally.apply(charge, 1)

    def of(self, claim: Claim, row: int) -> Charge | None:
        """What is charged for a claim on a row."""
        held = self._held.get(claim.name, ())
        return next((each for each in held if each.row == row and each.uid == claim.uid), None)

    def pod_of(self, claim: Claim) -> Pod | None:
        """The pod that makes a claim, as it is shown now; None: nobody shows it."""
        pod = self._objects(claim.name)
        return pod if pod is not None and pod.uid == claim.uid else None


def _held_for(held: Sequence[Charge], claim: Claim, row: int, *, is_kept: bool) -> Charge | None:
    """What was charged for the claim, the newest first."""
    found = None
    for each in held:
        if each.is_kept == is_kept and each.uid == claim.uid and (each.row == row or found is None):
            found = each
    return found
