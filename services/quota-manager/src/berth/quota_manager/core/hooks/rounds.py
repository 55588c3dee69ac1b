"""Where hooks come into a round of quota-manager: before sums are worked out, after it, and when a quota is written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from typing import Final

from msgspec.structs import replace

from berth.contracts import names
from berth.quota_manager.core.engine import Engine, Rules, Settled
from berth.quota_manager.core.forest import Group
from berth.quota_manager.core.hooks.asking import Hooks
from berth.quota_manager.core.hooks.classes import HookedClasses
from berth.quota_manager.core.hooks.published import Changes, PublishedCharges
from berth.quota_manager.core.made_quotas import QuotaObjects
from berth.resources.amounts import Amounts
from berth.rules.quota_hooks.seen import HookedGroup, HookedPod
from berth.rules.quota_payer import payer_of

WRITTEN: Final = (names.QUOTA_PREFIX, "scheduling.berth.sh/", "kubectl.kubernetes.io/")
"""What begins so among the annotations of an ElasticQuota is not its owner's word to a hook."""


class Hooking:
    """All that concerns hooks; nothing is done where there are none."""

    def __init__(self, hooks: Hooks | None, engine: Engine, on_news: Callable[[], None]) -> None:
        self.published = PublishedCharges()
        self.classes = HookedClasses(hooks, self._payer_of) if hooks else None
        self._hooks = hooks or None
        self._engine = engine
        self._on_news = on_news
        self._shown: dict[str, Mapping[str, Mapping[str, str]]] = {}

    @property
    def facts(self) -> Mapping[str, str | int]:
        """For the question for the status."""
        if self._hooks is None or self.classes is None:
            return {}
        return {"hooks": ", ".join(self._hooks.names), "classes of pods that hooks know": len(self.classes)}

    def before(self, now: float) -> None:
        """What pods cost is asked before it is summed up."""
        if self.classes is not None:
            self.classes.ask_charges(self._engine.book, now)

    def after(self, settled: Settled, seen_again: Set[str], objects: QuotaObjects, now: float) -> None:
        """Which group pays is known now: whom hooks refuse. Who is not asked about yet comes in the next round.

        `seen_again`: names of quotas whose object may be another.
        """
        if self.classes is None:
            return
        groups = self._engine.forest.groups
        if settled.rebuilt:
            self.classes.all_concerned()
            self._shown = {name: shown for name, shown in self._shown.items() if name in groups}
        else:
            changed = settled.shapes | seen_again
            for name in changed - groups.keys():
                self._shown.pop(name, None)
            self.classes.concerned(changed, self._served_by(settled.shapes))
        self.classes.ask_refusals(lambda name: self._group_of(name, objects), now)
        if self.classes.has_questions:
            self._on_news()

    def writes(self, present: Collection[str], *, everything: bool) -> Changes:
        """What to put under which key of QUOTA (None: delete)."""
        return self.published.writes(self.classes, present, everything=everything)

    def shown(self, group: Group, objects: QuotaObjects) -> Mapping[str, Mapping[str, str]]:
        """What hooks show of a group, by hook."""
        if self._hooks is None:
            return {}
        found = self._hooks.shown(_seen(group, objects, with_figures=True), self.last_shown(group.name))
        self._shown[group.name] = found
        return found

    def last_shown(self, name: str) -> Mapping[str, Mapping[str, str]]:
        """What hooks have shown of a group last, by hook; they are not asked."""
        return self._shown.get(name, {})

    def _payer_of(self, pod: HookedPod) -> str | None:
        return payer_of(self._engine.map, "", pod.labels.get(names.LABEL_QUOTA_NAME), pod.namespace)

    def _served_by(self, groups: Iterable[str]) -> Iterable[str]:
        for name in groups:
            yield from self._engine.map.served_by(name)

    def _group_of(self, name: str, objects: QuotaObjects) -> HookedGroup:
        return _seen(self._engine.forest.groups[name], objects)


def _seen(group: Group, objects: QuotaObjects, *, with_figures: bool = False) -> HookedGroup:
    """A group as hooks see it."""
    spec = group.spec
    quota = objects.get(spec.namespace, group.name)
    figures: dict[str, Amounts] = {}
    if with_figures:
        figures = {"used": dict(group.used), "request": dict(group.request), "runtime": dict(group.runtime)}
    return HookedGroup(
        name=group.name,
        namespace=spec.namespace,
        tree=group.tree,
        parent=spec.parent,
        min=dict(spec.min),
        max=dict(spec.max),
        labels=dict(quota.labels) if quota is not None else {},
        annotations={
            name: text
            for name, text in (quota.annotations.items() if quota is not None else ())
            if not name.startswith(WRITTEN)
        },
        **figures,
    )


def rules_with(rules: Rules, hooks: Hooks) -> Rules:
    """The rules where these hooks are asked."""
    charging = replace(rules.charging, hooks=hooks.names, hook_resources=sorted(hooks.resources))
    return dataclasses.replace(rules, charging=charging, unshared=hooks.resources)
