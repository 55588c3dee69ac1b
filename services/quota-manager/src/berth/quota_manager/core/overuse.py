"""Since when groups use more than their runtime: a fact that QUOTA carries, so that it survives who found it out.

What follows from it is for the solvers to say (`monitorAllQuotas`).
"""

from collections.abc import Iterable

import msgspec

from berth.contracts.quota import QuotaGroup
from berth.quota_manager.core.forest import Group
from berth.rules.quota_reclaim import is_over


class Overuse:
    """Which groups were over their runtime when they were last looked at."""

    def __init__(self) -> None:
        self._over: set[str] = set()

    def has_turned(self, group: Group, *, uses_runtime: bool) -> bool:
        """Whether a group has come over its runtime, or back within it, since it was last looked at; its max stands for
        what it has no runtime of, or for all of it."""
        runtime = group.runtime if uses_runtime else {}
        is_now = not group.is_detached and is_over(group.used, runtime, rest=group.spec.max)
        if is_now == (group.name in self._over):
            return False
        (self._over.add if is_now else self._over.discard)(group.name)
        return True

    def forget(self, group: str) -> None:
        """A group that no longer exists is over nothing."""
        self._over.discard(group)

    def forget_all_but(self, groups: Iterable[str]) -> None:
        """Groups that no longer exist are over nothing."""
        self._over.intersection_update(groups)


def dated(wanted: QuotaGroup, group: Group, known: QuotaGroup | None, now_ms: int) -> QuotaGroup:
    """The message with the time since when the group is over what the message says is its runtime.

    `known` is the message that is published now. A time that lies ahead, by a clock that was wrong, begins anew.
    """
    if group.is_detached or not is_over(group.used, wanted.runtime):
        return wanted
    since = known.over_since_ms if known is not None else 0
    return msgspec.structs.replace(wanted, over_since_ms=since if 0 < since <= now_ms else now_ms)
