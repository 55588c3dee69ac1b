"""What is remembered of pods for the sake of estimates: how long they stayed, and who has arrived lately."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from berth.contracts import names
from berth.contracts.state import Pod
from berth.placement_solver.core.estimates.lifetimes import Kind, Lifetimes
from berth.rules.gpu_request import WHOLE_CARDS
from berth.rules.times import unix_of
from berth.transaction.book import FINISHED_PHASES

ARRIVALS_KEPT: Final = 256
_PERCENT: Final = (names.KOORD_GPU, names.GPU_CORE, names.GPU_MEMORY_RATIO)


class Stays:
    """Fed with every change of a pod; a few microseconds each. Kept in memory alone: after a start it is learned anew,
    but for the ages of those that run, which STATE shows."""

    def __init__(self) -> None:
        self.lifetimes = Lifetimes()
        self.arrivals: deque[tuple[float, Pod]] = deque(maxlen=ARRIVALS_KEPT)

    def see(
        self,
        before: Pod | None,
        after: Pod | None,
        payer: Callable[[Pod], tuple[str, str] | None],
        now_s: float,
        among: int,
    ) -> None:
        """A pod of ours has changed, come (`before` is None) or gone. `payer` knows the group that pays for one,
        `now_s` is unix time, `among` about how many have a place."""
        if after is not None and before is None and not after.node:
            self.arrivals.append((now_s, after))
        if before is None or not before.node or before.phase in FINISHED_PHASES or before.mirror:
            return
        has_ended = after is None or after.uid != before.uid or after.phase in FINISHED_PHASES
        began = unix_of(before.scheduled) if has_ended else None
        if began is not None and began <= now_s:
            self.lifetimes.ended(kind_of(before, payer(before)), now_s - began, among)


def kind_of(pod: Pod, payer: tuple[str, str] | None) -> Kind:
    """What lifetimes are looked up by, from wide to narrow: its cards, who pays, all that it asks for."""
    cards, part = cards_of(pod.template.requests)
    shape = f"{cards} cards" if cards else "part" if part else "none"
    asked = ",".join(f"{name}={amount}" for name, amount in sorted(pod.template.requests.items()))
    return shape, "/".join(payer) if payer else pod.namespace, asked


def cards_of(requests: dict[str, int]) -> tuple[int, float]:
    """How many whole cards it takes, or which part of one."""
    for name in WHOLE_CARDS:
        if requests.get(name, 0) > 0:
            return requests[name], 0.0
    percent = max((requests.get(name, 0) for name in _PERCENT), default=0)
    return (percent // 100, 0.0) if percent >= 100 else (0, percent / 100)
