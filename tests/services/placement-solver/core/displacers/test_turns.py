"""When a pod for which others leave is planned again (E1, E5, E6), and what people are told meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from tests.services.worlds.solver.nominating import nominate

from berth.contracts.question import WhyQuestion
from berth.contracts.state import Pod
from berth.placement_solver import why
from berth.placement_solver.core.displacers.turns import Turn, turn_of
from berth.rules.eviction_notes import Mark, let_go_note, mark_note
from berth.rules.preemption import BY_SCHEDULER
from berth.testing.builders import PodBuilder, pod

WAITS = ("default", "waits")


@pytest.fixture
def run(solving: type[Any]) -> Any:
    made = solving()
    made.node("n0", cpu=4000)
    made.pod(low())
    made.pod(waits())
    return made


def low(**fields: Any) -> PodBuilder:
    return pod("low").requests(cpu=4000).on("n0").set(**fields)


def waits(**fields: Any) -> PodBuilder:
    return pod("waits").requests(cpu=4000).template(priority=9).set(**fields)


def turn(run: Any) -> Turn:
    book = run.cluster.book
    return turn_of(book, WAITS, book.pods[WAITS])


def seen(run: Any, name: str) -> Pod:
    found: Pod = run.cluster.book.pods["default", name]
    return found


def told(run: Any) -> str:
    return why.answer(run.cluster, WhyQuestion(namespace="default", name="waits")).message


def test_a_pod_for_which_nobody_leaves_may_be_nominated(run: Any) -> None:
    assert turn(run) is Turn.ANYHOW


def test_a_decided_pod_is_not_planned(run: Any) -> None:
    run.delete_pod("low")
    run.round()
    assert turn(run) is Turn.NOT_YET


def test_it_waits_until_all_victims_leave_and_takes_only_what_is_free_until_they_have_left(run: Any) -> None:
    nominate(run, "waits", "n0", 4, [seen(run, "low")])
    assert turn(run) is Turn.NOT_YET
    assert told(run) == "nominated to n0, waiting for default/low to leave it"
    run.pod(low(deleting=True))
    assert turn(run) is Turn.IF_FREE
    run.delete_pod("low")
    assert turn(run) is Turn.ANYHOW
    assert told(run) == "nominated to n0, which its victims have left"


def test_a_nomination_that_was_given_up_leaves_its_pod_free(run: Any) -> None:
    nominate(run, "waits", "n0", 4, [seen(run, "low")])
    run.pod(waits(attempt=1))
    assert turn(run) is Turn.ANYHOW


def test_a_nomination_for_its_predecessor_keeps_the_name(run: Any) -> None:
    nominate(run, "waits", "n0", 4, [seen(run, "low")])
    book = run.cluster.book
    successor = waits(uid="another").build(run.version)
    assert turn_of(book, WAITS, successor) is Turn.NOT_YET


def marked(run: Any, plan: str = "p", **fields: Any) -> PodBuilder:
    made = low(**fields)
    for key, value in mark_note(Mark(plan, "default/waits", seen(run, "waits").uid)).items():
        made.annotation(key, value)
    return made


def test_a_mark_has_to_be_taken_back_first(run: Any) -> None:
    run.pod(marked(run))
    assert turn(run) is Turn.NOT_YET
    run.pod(low())
    assert turn(run) is Turn.ANYHOW


def test_while_a_marked_victim_leaves_there_are_no_others_unless_the_plan_was_let_go(run: Any) -> None:
    run.pod(marked(run, deleting=True))
    assert turn(run) is Turn.ANYHOW, "a mark that somebody has made up"
    run.pod(marked(run, deleting=True, disruption=BY_SCHEDULER))
    assert turn(run) is Turn.IF_FREE
    free = waits()
    for key, value in let_go_note({}, "p").items():
        free.annotation(key, value)
    run.pod(free)
    assert turn(run) is Turn.ANYHOW
