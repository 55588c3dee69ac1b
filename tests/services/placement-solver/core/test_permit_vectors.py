"""The reference cases of a gang's start, through the whole decision: registry, plan, verifier.

A member that has found a node and waits is, here, a member that can be placed with this one in one plan: released means
that the plan places them all, waiting that it places none.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from berth.contracts import names
from berth.testing.builders import PodBuilder, pod
from berth.testing.vectors import cases

CASES = cases("gang/permit")


def split(gang_id: str) -> tuple[str, str]:
    namespace, _, name = gang_id.rpartition("/")
    return namespace or "default", name


def member(gang_id: str, index: str) -> PodBuilder:
    namespace, name = split(gang_id)
    return pod(f"{name}-{index}", namespace).requests(cpu=100).gang(name)


def qualified(gang_id: str) -> str:
    return "/".join(split(gang_id))


def gathered(run: Any, given: dict[str, Any]) -> list[PodBuilder]:
    """The gangs of a case, their bound members shown; the members that wait, the asking one last."""
    waiting = []
    for gang_id, gang in given["gangs"].items():
        namespace, name = split(gang_id)
        notes = {names.ANNOTATION_GANG_GROUPS: json.dumps([qualified(each) for each in gang["group"]])}
        if "matchPolicy" in gang:
            notes[names.ANNOTATION_GANG_MATCH_POLICY] = gang["matchPolicy"]
        run.pod_group(name, gang["minRequired"], namespace, annotations=notes)
        for index in range(gang.get("bound", 0)):
            run.pod(member(gang_id, f"bound-{index}").on("n"))
        waiting += [member(gang_id, f"waiting-{index}") for index in range(gang["waiting"])]
    asking = member(given["gang"], "asking") if given["gang"] else pod("asking").requests(cpu=100)
    return [*waiting, asking]


@pytest.mark.parametrize("case", CASES)
def test_a_gang_starts_when_the_rule_releases_it(solving: type[Any], case: dict[str, Any]) -> None:
    given, released = case["given"], case["expect"]["result"] != "wait"
    run = solving()
    run.node("n")
    builders = gathered(run, given)
    if given["gang"] and given["gangs"][given["gang"]].get("onceSatisfied"):
        run.cluster.gangs.gangs[qualified(given["gang"])].has_begun = True
    run.pods(builders)
    solution = run.round()  # asserts that the verifier agrees
    assert len(solution.placements) == (len(builders) if released else 0)


@pytest.mark.parametrize("case", CASES)
def test_the_verifier_asks_the_rule(solving: type[Any], case: dict[str, Any]) -> None:
    """The same plan, made whatever the registry says about its readiness."""
    given, released = case["given"], case["expect"]["result"] != "wait"
    run = solving()
    run.node("n")
    run.pods(pod(f"plain-{index}").requests(cpu=100) for index in range(len(gathered(solving(), given))))
    builders = gathered(run, given)
    if given["gang"] and given["gangs"][given["gang"]].get("onceSatisfied"):
        run.cluster.gangs.gangs[qualified(given["gang"])].has_begun = True
    plain, trial = run.solve()
    trial.undo()
    seen = run.pods(builders)
    claims = [
        placed.claim._replace(name=(each.namespace, each.name), uid=each.uid)
        for placed, each in zip(plain.placements, seen, strict=True)
    ]
    problems = run.verifier.check(claims)
    assert (problems == []) == released
    assert all("gang" in text for text in problems)
