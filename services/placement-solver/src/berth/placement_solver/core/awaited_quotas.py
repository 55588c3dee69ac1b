"""How long a pod waits for the quota group that it names and that QUOTA does not have.

Pods, ElasticQuotas and groups come by different ways, so a pod can be read before a quota that was made earlier.
Charged to the default group it would stay there for good. What STATE shows of ElasticQuotas distinguishes most cases:
- it shows one of this name: quota-manager has yet to work it out;
- it shows none, and is complete through the resource version at which the pod was first seen: there was none by then,
  and nothing to wait for (the versions of all kinds of one API server come from one counter);
- it shows none and proves nothing: markers of a quiet kind come once a minute, so only the clock can end this.

It does not say which group pays then; that is `berth.rules.quota_of_pod`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from berth.contracts.base import Reason
from berth.placement_solver.core.waits import WORKED_OUT_S, Wait
from berth.rules.quota_of_pod import DEFAULT_GROUP
from berth.transaction.completeness import Completeness

UNPROVEN_S: Final = 5.0
"""For a quota that STATE does not show: as long as a watch may come back later than that of pods."""


class ElasticQuotas:
    """What STATE shows of ElasticQuotas: which there are, since when, and whether these are all."""

    def __init__(self) -> None:
        self.complete = Completeness()
        self.anew_at = float("-inf")
        """When QUOTA began anew, if it did: its groups come again then."""
        self._seen_at: dict[str, dict[str, float]] = {}

    def __len__(self) -> int:
        return len(self._seen_at)

    def reset(self) -> None:
        """STATE starts over: nothing is known of any."""
        self.complete.reset()
        self._seen_at.clear()

    def see(self, namespace: str, name: str, now: float) -> None:
        """One is there. A name counts whatever its namespace, as in `quota.scheduling.koordinator.sh/name`."""
        self._seen_at.setdefault(name, {}).setdefault(namespace, now)

    def forget(self, namespace: str, name: str) -> None:
        """One was deleted."""
        known = self._seen_at.get(name, {})
        known.pop(namespace, None)
        if not known:
            self._seen_at.pop(name, None)

    def are_in(self, knows: Callable[[str], bool], now: float) -> bool:
        """Whether they are all known as groups; `knows` says it of a name.

        A QUOTA that begins anew shows the default group last: with it, every group is there. One that lost its tail may
        show it all the time: then each of them is waited for a while.
        """
        if not self.complete.is_known:
            return False
        if not self._seen_at:
            return True
        if not knows(DEFAULT_GROUP):
            return False
        return now >= self.anew_at + WORKED_OUT_S or all(knows(name) for name in self._seen_at)

    def wait_of(self, name: str, named_at: float, named_version: int) -> Wait | None:
        """The wait of a pod that names this quota, while QUOTA has no such group; None: it need not wait.

        `named_at` and `named_version`: when, and at which resource version, the pod was first seen with this name. For
        a quota that STATE shows, time counts from when it or the pod was seen, or QUOTA began anew, whichever came
        last; one that quota-manager cannot use never becomes a group.
        """
        shown = self._seen_at.get(name)
        if shown:
            reason = Reason(
                code="quota",
                message=f"quota {name} is new, its limits are not known yet",
                repair="none needed; if this lasts, see whether quota-manager works",
            )
            return Wait(max(named_at, self.anew_at, *shown.values()) + WORKED_OUT_S, reason)
        if self.complete.version >= named_version:
            return None
        reason = Reason(code="quota", message=f"quota {name} is not known yet", repair=f"create ElasticQuota {name}")
        return Wait(named_at + UNPROVEN_S, reason)
