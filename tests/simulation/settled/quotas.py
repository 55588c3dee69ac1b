"""QUOTA against the ElasticQuotas and the pods there are, and what ElasticQuotas show of it against a recount.

The recount is from the objects alone. What a group may use follows from what all ask for by the rules of
`tests.services.worlds.quota.definition`, which is not what runs: the service keeps the same figures by
differences.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from tests.services.worlds.quota.definition import Asking, Figures, solve
from tests.simulation.harness import Harness
from tests.simulation.hooked import SEAT, seats_of
from tests.simulation.settled.held import GROUPS, labels, messages, objects

from berth.contracts import buckets, names, subjects
from berth.contracts.quota import QuotaGroup
from berth.invariants import Counts
from berth.invariants.facts import Facts, amounts_of
from berth.resources.amounts import Amounts, add, add_into, subtract_from, without_zeros
from berth.rules.quota_of_pod import BUILT_IN_GROUPS, QuotaClaim, QuotaMap, parse_namespaces
from berth.rules.quota_payer import charged, payer_of, pays_for, uncharged
from berth.rules.records.registry import QUOTA
from berth.simcluster.store.objects import Obj

SHARED_BY_DEFAULT: Final = ("cpu", "memory")
"""What pods without a group take from everybody: no run gives the default group a max of its own."""

MADE_BY_BERTH: Final = {*BUILT_IN_GROUPS, "koordinator-root-quota"}
"""Groups that are there whether or not somebody has made an object of them."""

ANNOTATIONS: Final = (names.ANNOTATION_QUOTA_RUNTIME, names.ANNOTATION_QUOTA_REQUEST)


@dataclass
class Counted:
    """A group by its object. `asked` and `held` are of its own pods, all resources of them."""

    name: str
    tree: str
    parent: str
    least: Amounts
    most: Amounts
    lends: bool
    shown: Amounts
    noted: Mapping[str, Amounts]
    """By annotation."""
    total: Amounts
    """What its tree has, where it is the top of one."""
    asked: Amounts = field(default_factory=dict)
    held: Amounts = field(default_factory=dict)


def groups(harness: Harness, facts: Facts, counts: Counts) -> Iterator[str]:
    """Groups of which QUOTA, or their own status, says something else than follows from the objects.

    Each tree is solved by itself; the default one goes without what the others have.
    """
    counted, unowned = count(harness, facts)
    counts.judged("I8", len(counted))
    total, figures = _total(harness, unowned), {}
    scales_min = _is_on(harness, "BERTH_QUOTA_SCALE_MIN")
    for tree in sorted({group.tree for group in counted.values()} - {""}):
        own = [group for group in counted.values() if group.tree == tree]
        top = next((group.total for group in own if group.total), {})
        subtract_from(total, top)
        figures |= solve([_asking(group, counted) for group in own], top, scales_min=scales_min)
    in_default = [_asking(group, counted) for group in counted.values() if not group.tree]
    figures |= solve(in_default, total, scales_min=scales_min)
    for name, group in sorted(counted.items()):
        used = without_zeros(_used(name, counted))
        if used != group.shown:
            yield f"ElasticQuota {name}: its pods use {used}, it shows {group.shown}"
    yield from _published(harness, counted, figures)
    yield from _noted(counted, figures)


def _published(harness: Harness, counted: Mapping[str, Counted], figures: Mapping[str, Figures]) -> Iterator[str]:
    published = messages(harness.nats, buckets.QUOTA, QuotaGroup, "group.")
    for key in sorted(published):
        if published[key].name not in counted and published[key].name not in BUILT_IN_GROUPS:
            yield f"QUOTA shows {key}, of which there is no ElasticQuota"
    for name, group in sorted(counted.items()):
        said = published.get(subjects.quota_key(group.tree, name))
        if said is None:
            yield f"QUOTA shows no group {name}"
            continue
        shared = {key: amount for key, amount in figures[name].runtime.items() if key != SEAT}
        runtime = dict(group.most)
        if _is_on(harness, "BERTH_QUOTA_RUNTIME"):
            runtime = {key: shared.get(key, most) for key, most in group.most.items()}
        asked = without_zeros(figures[name].request)
        is_so = (group.parent, group.least, group.most, sorted(group.most), runtime, asked)
        says = (said.parent, said.min, said.max, said.limits, said.runtime, said.request)
        for what, here, there in zip(
            ("parent", "min", "max", "limits", "runtime", "request"), is_so, says, strict=True
        ):
            if here != there:
                yield f"QUOTA, group {name}: {what} is {here}, shown as {there}"


def _is_on(harness: Harness, setting: str) -> bool:
    """A switch of quota-manager that is on unless it is told otherwise."""
    return harness.settings.get("quota-manager", {}).get(setting) != "false"


def _noted(counted: Mapping[str, Counted], figures: Mapping[str, Figures]) -> Iterator[str]:
    for name, group in sorted(counted.items()):
        for annotation, amounts in zip(ANNOTATIONS, (figures[name].runtime, figures[name].request), strict=True):
            if without_zeros(amounts) != group.noted[annotation]:
                yield f"ElasticQuota {name}: {annotation} is {amounts}, shown as {group.noted[annotation]}"


def count(harness: Harness, facts: Facts) -> tuple[dict[str, Counted], Amounts]:
    """Every group with its own pods, and what pods without a group hold."""
    objs = [obj for obj in objects(harness, GROUPS, "elasticquotas").values() if obj.meta["name"] not in MADE_BY_BERTH]
    found = {
        obj.meta["name"]: Counted(
            name=obj.meta["name"],
            tree=labels(obj).get(names.LABEL_QUOTA_TREE, ""),
            parent=labels(obj).get(names.LABEL_QUOTA_PARENT, ""),
            least=amounts_of(obj.data["spec"].get("min")),
            most=amounts_of(obj.data["spec"].get("max")),
            lends=labels(obj).get(names.LABEL_QUOTA_LENDS) != "false",
            shown=without_zeros(amounts_of(obj.data.get("status", {}).get("used"))),
            noted={each: _annotation(obj, each) for each in ANNOTATIONS},
            total=_annotation(obj, names.ANNOTATION_QUOTA_TOTAL),
        )
        for obj in objs
    }
    for group in found.values():
        group.tree = _tree(group, found)
    rules = harness.observer.capacity.rules
    payers = QuotaMap(
        (
            QuotaClaim(obj.meta["name"], obj.meta["namespace"], parse_namespaces(obj.meta.get("annotations") or {})[0])
            for obj in objs
        ),
        uses_default=rules.uses_default,
    )
    unowned: Amounts = {}
    for seen in facts.pods.values():
        if not seen.is_live or not pays_for(rules, is_deleting=seen.is_deleting):
            continue
        paid = seen.annotations.get(names.ANNOTATION_QUOTA, "") if seen.node else ""
        name = payer_of(payers, paid, seen.labels.get(names.LABEL_QUOTA_NAME), seen.key[0])
        more = QUOTA.read_surcharge(seen.annotations) if seen.node else seats_of(seen.labels)
        amounts = add(charged(seen.amounts, uncharged(rules, seen.overhead)), more)
        payer = found.get(name or "")
        if payer is not None:
            add_into(payer.asked, amounts)
        if seen.node and name is not None:
            add_into(unowned if payer is None else payer.held, amounts)
    return found, unowned


def _tree(group: Counted, counted: Mapping[str, Counted]) -> str:
    """The tree that it names, else that of the nearest group above which names one."""
    above: Counted | None = group
    while above is not None and not above.tree:
        above = counted.get(above.parent)
    return above.tree if above is not None else ""


def _annotation(obj: Obj, annotation: str) -> Amounts:
    text = (obj.meta.get("annotations") or {}).get(annotation)
    return without_zeros(amounts_of(msgspec.json.decode(text))) if text else {}


def _asking(group: Counted, counted: Mapping[str, Counted]) -> Asking:
    return Asking(
        name=group.name,
        parent=group.parent if group.parent in counted else None,
        max=group.most,
        min=group.least,
        lends=group.lends,
        self_request=_of(group.asked, group.most),
        self_used=_of(group.held, group.most),
    )


def _used(name: str, counted: Mapping[str, Counted]) -> Amounts:
    group = counted[name]
    total = _of(group.held, group.most)
    for child in counted.values():
        if child.parent == name:
            add_into(total, _used(child.name, counted))
    return total


def _total(harness: Harness, unowned: Amounts) -> Amounts:
    total: Amounts = {}
    for node in objects(harness, "", "nodes").values():
        add_into(total, amounts_of(node.data.get("status", {}).get("allocatable")))
    subtract_from(total, _of(unowned, SHARED_BY_DEFAULT))
    return total


def _of(amounts: Amounts, named: Container[str]) -> Amounts:
    return {name: amount for name, amount in amounts.items() if name in named}
