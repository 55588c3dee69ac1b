"""The reference cases of quota admission: whether the solver charges a group as quota-manager publishes it."""

from __future__ import annotations

from typing import Any

import pytest

from berth.contracts.quota import QuotaRules
from berth.placement_solver.core.quotas import Quotas
from berth.quota_manager.core.forest import Group
from berth.quota_manager.core.group import GroupSpec
from berth.quota_manager.core.limits import frame_message, with_figures
from berth.testing.vectors import cases

REASONS = {"limit": "use", "min": "non-preemptible use"}


def published(quotas: list[dict[str, Any]], *, uses_runtime: bool, checks_parents: bool) -> Quotas:
    groups: dict[str, Group] = {}
    rules = QuotaRules(checks_parents=checks_parents)
    for each in quotas:
        spec = GroupSpec(name=each["name"], parent=each["parent"], max=each["max"], min=each["min"])
        groups[each["name"]] = Group(spec, "")
        groups[each["name"]].runtime = each["runtime"]
    made = Quotas()
    for each in quotas:
        group = groups[each["name"]]
        group.parent = groups.get(each["parent"])
    for name, group in groups.items():
        frame = frame_message(group, [], rules=rules)
        made.see("", name, with_figures(frame, group, [], uses_runtime=uses_runtime))
    return made


@pytest.mark.parametrize("case", cases("quota/admission"))
def test_a_pod_is_charged_or_refused(case: dict[str, Any]) -> None:
    given, expect = case["given"], case["expect"]
    quotas = published(given["quotas"], uses_runtime=given["enableRuntimeQuota"], checks_parents=given["checkParents"])
    for each in reversed(given["quotas"]):
        # A group's own charge is what its children have not charged to it already.
        held = each["nonPreemptibleUsed"]
        quotas.charge(f"/{each['name']}", held, 1, non_preemptible=True)
        there = quotas.used(("", each["name"]))
        rest = {name: amount - there.get(name, 0) for name, amount in each["used"].items()}
        quotas.charge(f"/{each['name']}", rest, 1, non_preemptible=False)
    refusal = quotas.refusal(("", given["quota"]), given["podRequest"], non_preemptible=given["nonPreemptible"])
    if expect["result"] == "admitted":
        assert refusal is None
    else:
        assert refusal is not None
        assert len(expect["exceed"]) == 1, "the message names the first of several"
        kind = REASONS[expect["check"]]
        assert refusal.message.startswith(f"quota {expect['quota']}: {kind} of {expect['exceed'][0]} ")
