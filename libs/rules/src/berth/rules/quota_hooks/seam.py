"""What a hook is. A plug-in may use these types, and need not: what it has of the methods below is called."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from berth.rules.quota_hooks.seen import HookedGroup, HookedPod

ENTRY_POINTS: Final = "berth.quota_hooks"
"""The group of entry points in which plug-ins name their hooks."""


class QuotaHook(Protocol):
    """All of it, by one object.

    Answers are functions of the arguments alone: a class of pods is asked about once, and the answer counts for all its
    pods. `resources` are the names of what `charges` may charge. They belong to the hook: no node offers them.
    """

    resources: Collection[str]

    def charges(self, pod: HookedPod) -> Mapping[str, int | str]:
        """What the group that pays is charged for such a pod beyond its request: quantities by resource name."""

    def refuses(self, pod: HookedPod, group: HookedGroup) -> str:
        """Why such a pod may not be charged to this group; empty: it may."""

    def shows(self, group: HookedGroup) -> Mapping[str, str | int]:
        """What the quota of this group is to show beside its figures."""
