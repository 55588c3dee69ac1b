"""Reference cases of admission."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from berth.contracts import state
from berth.contracts.base import Problem
from berth.contracts.kube import LabelSelector
from berth.resources.quantity import parse_milli
from berth.rules.admission.classes import (
    class_of,
    class_with_default,
    priority_with_default,
    qos_with_default,
)
from berth.rules.admission.devices import device_refusals, expand, mutate, validate
from berth.rules.admission.draft import Draft
from berth.rules.admission.extended_spec import extended_spec
from berth.rules.admission.network_qos import network_problem
from berth.rules.admission.node_amplification import amplify_status, has_changed
from berth.rules.admission.node_selectors import matching, overlapping
from berth.rules.admission.pod_protocol import changes, contradictions
from berth.rules.admission.profile_rule import mutate_by_profiles
from berth.rules.admission.profiles import Profile, Profiles, read_profile
from berth.rules.cpus.qos import qos_class
from berth.rules.selectors import compile_selector
from berth.testing.vectors import cases

Json = dict[str, Any]


def by_value(item: Any, *, amounts: bool = False) -> Any:
    """An object in which amounts are numbers, and empty objects are left out."""
    if isinstance(item, dict):
        told = {
            name: by_value(value, amounts=amounts or name in ("requests", "limits", "overhead"))
            for name, value in item.items()
        }
        return {name: value for name, value in told.items() if value != {}}
    if isinstance(item, list):
        return [by_value(each) for each in item]
    return parse_milli(item) if amounts else item


def selector_of(item: Json) -> LabelSelector:
    return msgspec.convert(item, LabelSelector)


def profile_of(item: Json) -> Profile:
    profile = read_profile(item["metadata"]["name"], item["metadata"].get("annotations", {}), item["spec"])
    assert isinstance(profile, Profile)
    return profile


@pytest.mark.parametrize("case", cases("admission/class_derivation"))
def test_classes(case: Json) -> None:
    pod = case["given"]["pod"]
    assert case["expect"] == {
        "qosRaw": qos_class(pod["metadata"]["labels"]),
        "qosWithDefault": qos_with_default(pod),
        "classRaw": class_of(pod),
        "classWithDefault": class_with_default(pod),
        "priorityValueWithDefault": priority_with_default(pod),
    }


@pytest.mark.parametrize("case", cases("admission/profile_mutation"))
def test_profiles(case: Json) -> None:
    given, before = case["given"], copy.deepcopy(case["given"]["pod"])
    draft = Draft(given["pod"])
    outcome = mutate_by_profiles(
        draft,
        Profiles(profile_of(each) for each in given["profiles"]),
        namespace=given["namespaceLabels"],
        priority_classes={
            name: state.PriorityClass(
                name=name, version=1, value=each["value"], preemption_policy=each["preemptionPolicy"]
            )
            for name, each in given["priorityClasses"].items()
        },
        # The reference draws 0 to 99 and takes what is not above the probability: one too many, and never all.
        draw=given.get("random", 100),
        keeps_resources=given.get("skipMutatingResourcesGate", False),
        converts_overhead=True,
    )
    assert given["pod"] == before
    assert (outcome.failed is not None) is case["expect"].get("error", False)
    if "pod" in case["expect"]:
        assert by_value(draft.now) == by_value(case["expect"]["pod"])


@pytest.mark.parametrize("case", cases("admission/extended_resource_spec"))
def test_extended_resource_spec(case: Json) -> None:
    content, problems = extended_spec(case["given"]["pod"])
    assert not problems
    assert by_value(content) == by_value(case["expect"]["spec"])


@pytest.mark.parametrize("case", cases("admission/pod_validation"))
def test_pods(case: Json) -> None:
    given, pod = case["given"], case["given"]["pod"]
    refusals = list(contradictions(pod))
    if given["operation"] == "UPDATE":
        is_free = given.get("skipValidatingPriority", False)
        refusals += changes(given["oldPod"], pod, priority_is_free=is_free, lowering_is_free=False)
    assert sorted(each.rule for each in refusals) == sorted(case["expect"]["failed"])
    assert (not refusals) is case["expect"]["allowed"]


@pytest.mark.parametrize("case", cases("admission/device_mutation"))
def test_devices(case: Json) -> None:
    draft = Draft(case["given"]["pod"])
    assert expand(draft, ()) in ((0, []), (1, []))
    assert by_value(draft.now) == by_value(case["expect"]["pod"])


@pytest.mark.parametrize("case", cases("admission/device_validation"))
def test_device_refusals(case: Json) -> None:
    refusals = list(device_refusals(case["given"]["pod"]))
    assert [each.rule for each in refusals] == case["expect"]["failed"]
    assert (not refusals) is case["expect"]["allowed"]


@pytest.mark.parametrize("case", cases("devices/admission_mutation"))
def test_devices_of_a_container(case: Json) -> None:
    requests = case["given"]["requests"]
    admitted = mutate(requests, requests)
    assert not isinstance(admitted, Problem)
    assert admitted.requests == admitted.limits == case["expect"]["requests"]


@pytest.mark.parametrize("case", cases("devices/admission_validation"))
def test_device_refusal_of_a_container(case: Json) -> None:
    given, expect = case["given"], case["expect"]
    refusal = validate(given["requests"]) if given["gateEnabled"] else None
    assert (refusal is None) is expect["allowed"]
    if refusal is not None:
        assert expect.get("reason", "") in refusal.message


def shown(allocatable: Json) -> dict[str, int]:
    return {name: parse_milli(amount) for name, amount in allocatable.items()}


@pytest.mark.parametrize("case", cases("admission/node_amplification"))
def test_amplification(case: Json) -> None:
    given, expect = case["given"], case["expect"]
    found = amplify_status(given["node"]["annotations"], given["node"]["allocatable"], given.get("oldAllocatable"))
    assert shown(dict(found.allocatable)) == shown(expect["allocatable"])
    assert found.raw == expect["raw"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/amplification_webhook"))
def test_amplification_of_reports(case: Json) -> None:
    given, expect = case["given"], case["expect"]
    found = amplify_status(given["annotations"], given["allocatable"], given.get("oldAllocatable"))
    # Where the reference refuses the report, it passes as it is, and the problem is told.
    assert bool(found.problems) is expect.get("error", False)
    if found.problems:
        assert found.allocatable == given["allocatable"]
        return
    assert shown(dict(found.allocatable)) == shown(expect["allocatable"])
    assert found.raw == expect["rawAllocatable"]


@pytest.mark.parametrize("case", cases("numa-cpu-scoring/amplification_changed"))
def test_what_counts_as_a_change(case: Json) -> None:
    assert has_changed(case["given"]["old"], case["given"]["new"]) is case["expect"]["changed"]


@pytest.mark.parametrize("case", cases("admission/selector_overlap"))
def test_overlap(case: Json) -> None:
    overlap = overlapping([selector_of(each) for each in case["given"]["selectors"]])
    assert (overlap is not None) is case["expect"]["overlap"]


@pytest.mark.parametrize("case", cases("admission/node_strategy_conflict"))
def test_conflicts(case: Json) -> None:
    given, expect = case["given"], case["expect"]
    tests = [compile_selector(selector_of(each)).matches for each in given["selectors"]]
    found = matching(tests, given["nodeLabels"])
    assert found == expect["matching"]
    assert (len(found) > 1) is expect["conflict"]


@pytest.mark.parametrize("case", cases("admission/network_qos_validity"))
def test_network_requests(case: Json) -> None:
    given = case["given"]
    assert (network_problem(given["strategy"], given.get("totalBandwidth")) is None) is case["expect"]["valid"]
