"""From what an agent asks to its answers, in the entries of pods.

An ask is answered once. It is granted when the node's strategy lets the feature run, the pod is one that it may name,
nothing protects it, its workload has not given too many already, and the need is not covered by who leaves already
(one need evicts once); while it is covered it gets no answer and waits. What was granted stands until the pod is gone,
or its note says that it stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from msgspec.structs import replace

from berth.contracts.node_pressure import EvictionAsk
from berth.contracts.slo import NodePod, PodEviction
from berth.rules.node_evictions.candidates import refusal
from berth.rules.node_evictions.covered import Leaving, still_missing
from berth.rules.node_evictions.features import FEATURES, runs
from berth.rules.node_evictions.thresholds import Thresholds
from berth.slo_manager.core.evicting.rates import (
    GRANTED,
    NONE,
    PERIOD_S,
    REFUSED,
    Granted,
    evicted_lately,
    is_granted,
)
from berth.slo_manager.core.evicting.tenants import Tenant

NUMBER_MAX: Final = 2**62


class Site(NamedTuple):
    """What is known of a node.

    `tenants` are its pods by uid, `published` the entries of SLO. `evicted` are entries of the whole cluster of who
    leaves or has left, by workload, `per_hour` how many of one may; `thresholds` None: the node's cannot be read.
    """

    tenants: Mapping[str, Tenant]
    published: Mapping[str, NodePod]
    asks: Iterable[EvictionAsk]
    thresholds: Thresholds | None
    evicted: Granted
    per_hour: int


def entries_of(site: Site, now_s: float, now_ms: int) -> dict[str, NodePod]:
    """What SLO is to say of the pods of a node, by uid."""
    found = {uid: _kept(tenant, site.published.get(uid)) for uid, tenant in site.tenants.items()}
    for uid, entry in site.published.items():
        if uid not in found and is_granted(entry):
            left = entry if entry.left else replace(entry, left=now_s)
            if now_s - left.left < PERIOD_S:
                found[uid] = left
    granted, newest = list[NodePod](), _newest(site)
    for ask in site.asks:
        tenant = site.tenants.get(ask.uid)
        if tenant is None or tenant.pod.deleting or not _is_news(ask, found[ask.uid].eviction):
            continue
        why = why_not(ask, tenant, site, granted, now_s)
        if not why and not still_missing(ask.accumulator, ask.release, _leaving(site.tenants, found)):
            continue
        newest = max(now_ms, newest + 1)
        entry = replace(found[ask.uid], eviction=_answer(ask, why, now_s, newest))
        found[ask.uid] = entry
        if not why:
            granted.append(entry)
    return found


def why_not(ask: EvictionAsk, tenant: Tenant, site: Site, granted: Iterable[NodePod], now_s: float) -> str:
    """Why a pod does not leave, whoever else does; empty: it may. `granted`: who leaves beside those of the site."""
    feature, thresholds = FEATURES.get(ask.feature), site.thresholds
    if feature is None:
        return f"no feature is called {ask.feature[:80]!r}"
    if ask.accumulator != feature.accumulator:
        return f"{feature.name} counts by {feature.accumulator}, not by {ask.accumulator[:80]!r}"
    if why := _worthless(ask):
        return why
    if thresholds is None or not thresholds.enable:
        return "the node's strategy is switched off"
    if not runs(feature, thresholds):
        return f"the node's strategy does not let {feature.name} run"
    if tenant.protected:
        return f"it is protected: {tenant.protected}"
    if why := refusal(feature, tenant.candidate, thresholds):
        return why
    workload = tenant.pod.workload
    if workload and _lately(workload, site, granted, now_s) >= site.per_hour:
        return f"{site.per_hour} pods of {workload} were evicted within an hour"
    return ""


def _worthless(ask: EvictionAsk) -> str:
    """Why a pod would leave for nothing: what counts for nothing of a need never covers it, and would take one pod of
    the node after the other."""
    wanted = sorted(name for name, amount in ask.release.items() if amount > 0)
    if not wanted or any(ask.counts.get(name, 0) > 0 for name in wanted):
        return ""
    return f"counts: has nothing of what is to be released ({', '.join(wanted)[:80]})"


def _lately(workload: str, site: Site, granted: Iterable[NodePod], now_s: float) -> int:
    """How many of a workload leave, or have left, in the whole cluster."""
    return evicted_lately(
        (*site.evicted.get(workload, NONE).values(), *(each for each in granted if each.workload == workload)), now_s
    )


def _kept(tenant: Tenant, before: NodePod | None) -> NodePod:
    """The entry with the answer of before; one that was granted is refused once the pod's note says so."""
    eviction = None if before is None else before.eviction
    note = tenant.note
    if eviction is None:
        return tenant.pod
    stays = note is not None and note.refused and note.revision >= eviction.revision
    if stays and note is not None and eviction.state == GRANTED:
        eviction = replace(eviction, state=REFUSED, reason=note.refused)
    entry = replace(tenant.pod, eviction=eviction)
    return before if before is not None and before == entry else entry


def _is_news(ask: EvictionAsk, before: PodEviction | None) -> bool:
    if not 0 < ask.number < NUMBER_MAX:
        return False
    return before is None or (before.state == REFUSED and ask.number > before.number)


def _leaving(tenants: Mapping[str, Tenant], entries: Mapping[str, NodePod]) -> Iterator[Leaving]:
    """Who counts: those that were granted and are there, and those that leave by their note, which outlives SLO."""
    for uid, tenant in tenants.items():
        eviction = entries[uid].eviction
        if eviction is not None and eviction.state == GRANTED:
            yield Leaving(eviction.accumulator, eviction.counts)
        elif tenant.note is not None and not tenant.note.refused and tenant.pod.deleting:
            yield Leaving(tenant.note.accumulator, tenant.note.counts)


def _newest(site: Site) -> int:
    """The newest revision on the node, whatever clocks say: who was granted later has a larger one."""
    said = [each.eviction.revision for each in site.published.values() if each.eviction is not None]
    noted = [each.note.revision for each in site.tenants.values() if each.note is not None]
    return max((*said, *noted), default=0)


def _answer(ask: EvictionAsk, why: str, now_s: float, revision: int) -> PodEviction:
    return PodEviction(
        number=ask.number,
        need=ask.need,
        feature=ask.feature,
        accumulator=ask.accumulator,
        state=REFUSED if why else GRANTED,
        release=ask.release,
        counts={name: max(amount, 0) for name, amount in ask.counts.items()},
        reason=why,
        message=ask.message,
        at=now_s,
        revision=revision,
    )
