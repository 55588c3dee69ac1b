"""Which taints keep a pod off a node, or make it come last.

A pod's tolerations are compiled once; since many nodes carry the same few taints, the answer for a taint is remembered.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from berth.contracts.kube import Taint, Toleration

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)

UNSCHEDULABLE_REASON: Final = "node(s) were unschedulable"
UNTOLERATED_REASON: Final = "node(s) had untolerated taint(s)"

_HARD: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})
_REMEMBERED_MAX: Final = 4096


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Kubernetes' rule: an empty effect or key means any; Exists ignores the value; an unknown operator tolerates
    nothing.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


class Tolerations:
    """The tolerations of one pod or of one class of pods."""

    __slots__ = ("_known", "_soft", "_tolerations")

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._tolerations = tuple(tolerations)
        # The taint score looks only at tolerations that were meant for soft taints.
        self._soft = tuple(each for each in self._tolerations if each.effect in {"", PREFER_NO_SCHEDULE})
        self._known: dict[tuple[str, str, str], bool] = {}

    def tolerate(self, taint: Taint) -> bool:
        """Whether any of them tolerates the taint."""
        identity = (taint.key, taint.value, taint.effect)
        answer = self._known.get(identity)
        if answer is None:
            relevant = self._soft if taint.effect == PREFER_NO_SCHEDULE else self._tolerations
            answer = any(tolerates(each, taint) for each in relevant)
            if len(self._known) < _REMEMBERED_MAX:
                self._known[identity] = answer
        return answer

    def first_untolerated(self, taints: Sequence[Taint]) -> Taint | None:
        """The first NoSchedule or NoExecute taint that keeps the pod off; None lets it in."""
        for taint in taints:
            if taint.effect in _HARD and not self.tolerate(taint):
                return taint
        return None

    def admit(self, taints: Sequence[Taint], *, unschedulable: bool) -> bool:
        """Whether the pod may enter a node with these taints and this `spec.unschedulable`."""
        return not (unschedulable and not self.tolerate(UNSCHEDULABLE_TAINT)) and self.first_untolerated(taints) is None

    def count_soft_untolerated(self, taints: Sequence[Taint]) -> int:
        """PreferNoSchedule taints that the pod does not tolerate; fewer is better."""
        return sum(1 for taint in taints if taint.effect == PREFER_NO_SCHEDULE and not self.tolerate(taint))
