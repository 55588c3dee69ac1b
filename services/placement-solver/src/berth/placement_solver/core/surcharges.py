"""What hooks charge for pods beyond their requests, and whom they refuse, by class of pods, as QUOTA says.

quota-manager asks the hooks; here they are nowhere. Where it is set to have any, a pod is placed only once it has said
what they say of the pod's class and of the group that pays for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from berth.contracts.base import Reason
from berth.contracts.quota import PodCharge
from berth.contracts.state import Pod
from berth.placement_solver.core.quotas import Quotas
from berth.placement_solver.core.waits import WORKED_OUT_S, Wait
from berth.rules.quota_hooks.seen import class_id, hooked_pod

NO_CHARGE: Final = PodCharge(id="")
"""Of a pod about which nobody is asked."""
UNSAID: Final = Reason(
    code="quota",
    message="what hooks of quotas say of such pods is not known yet",
    repair="none needed; if this lasts, see whether quota-manager works",
)
MEND_HOOK: Final = "none needed, it is asked again soon; if this lasts, see why in the log of quota-manager"
IDS_MAX: Final = 8192
NO_GROUPS: Final[frozenset[str]] = frozenset()


class Surcharges:
    """Messages by class, and the classes of the pods that were asked for last."""

    def __init__(self, quotas: Quotas) -> None:
        self.known: dict[str, PodCharge] = {}
        self._quotas = quotas
        self._ids: dict[int, tuple[Pod, str]] = {}

    def see(self, key: str, charge: PodCharge | None) -> frozenset[str]:
        """Take in a message, or with None its end; the groups for whose pods something else is said now."""
        before = self.known.pop(key, None)
        if charge is not None:
            self.known[key] = charge
        return frozenset(each.group for each in (before, charge) if each is not None) if before != charge else NO_GROUPS

    def reset(self) -> None:
        """QUOTA starts over."""
        self.known.clear()

    def of(self, pod: Pod, payer: tuple[str, str] | None) -> PodCharge | None:
        """What hooks say of a pod that is not bound and that this group would pay for; None: it is not known yet."""
        if payer is None or not self._quotas.rules.hooks:
            return NO_CHARGE
        found = self.known.get(self._id_of(pod))
        return found if found is not None and found.group == payer[1] else None

    def wait_of(self, pod: Pod, payer: tuple[str, str] | None, since: float) -> Wait | None:
        """The wait of a pod that is there `since` a monotonic time; None: it need not wait."""
        return None if self.of(pod, payer) is not None else Wait(since + WORKED_OUT_S, UNSAID)

    def _id_of(self, pod: Pod) -> str:
        known = self._ids.get(id(pod))
        if known is not None and known[0] is pod:
            return known[1]
        if len(self._ids) >= IDS_MAX:
            self._ids.clear()
        found = class_id(hooked_pod(pod.namespace, pod.template))
        self._ids[id(pod)] = (pod, found)
        return found


def surcharge_in(charge: PodCharge | None) -> Mapping[str, int]:
    """What is charged beyond the request."""
    return charge.surcharge if charge is not None else NO_CHARGE.surcharge


def refusals_in(charge: PodCharge | None) -> tuple[Reason, ...]:
    """Why hooks keep a pod from every node; empty where they do not."""
    if charge is None:
        return (UNSAID,)
    return tuple(
        Reason(
            code="quota",
            message=f"quota {charge.group}: hook {each.hook} refuses the pod: {each.message}",
            repair=MEND_HOOK if each.has_failed else f"change what hook {each.hook} looks at, in the pod or its quota",
        )
        for each in charge.refusals
    )
