"""How a gang looks: all that is known of it, on a terminal of 80 columns."""

from __future__ import annotations

from berth.cli.commands.gang import question_of
from berth.cli.gang_lines import SHOWN_MAX, drawn, table
from berth.contracts.base import Problem, Reason
from berth.contracts.gang_question import GangAnswer, GangQuestion, GangView

WAITING = GangView(
    namespace="team",
    name="train",
    outcome="refused",
    source="PodGroup",
    mode="Strict",
    match_policy="once-satisfied",
    minimum=4,
    wait_s=600.0,
    group=["team/eval", "team/train"],
    children=4,
    counts={"nominated": 1, "waiting": 1, "victims": 1},
    nominated={"team/train-0": "node-1"},
    waiting=["team/train-1"],
    slots=["SpineLayer/s1: 3", "SpineLayer/s2: 2"],
    rounds=3,
    last_round_s=12.3,
    victims=["team/low-0"],
    reasons=[Reason(code="gang", message="capacity for 3 of 4 members", repair="free one more node")],
    problems=[Problem(field="metadata.annotations[x]", message="gang team/eval of the group is not there")],
)


def test_a_gang_that_waits() -> None:
    assert drawn(WAITING, 80) == [
        "gang/team/train  refused",
        "  size        4 members, at least 4 start together",
        "  settings    Strict, once-satisfied, waits 600 s, by PodGroup",
        "  group       team/eval, team/train",
        "  last round  12 s ago, 3 in vain",
        "  victims     team/low-0",
        "  nominated",
        "    team/train-0  node-1",
        "  waiting",
        "    team/train-1",
        "  slots",
        "    SpineLayer/s1: 3",
        "    SpineLayer/s2: 2",
        "  because     capacity for 3 of 4 members",
        "  problem     metadata.annotations[x]: gang team/eval of the group is not there",
        "  repair      free one more node",
    ]


def test_of_many_members_some_are_shown() -> None:
    bound = {f"team/p{at:03}": "n" for at in range(100)}
    view = GangView(namespace="team", name="big", outcome="bound", bound=bound, counts={"bound": 512})
    lines = drawn(view, 80)
    assert f"    and {512 - SHOWN_MAX} more" in lines
    assert max(map(len, lines)) <= 80


def test_all_gangs_are_a_table() -> None:
    bound = GangView(namespace="a", name="b", outcome="bound", minimum=1, counts={"bound": 1}, domain="Block b1 (1)")
    lines = table(GangAnswer(gangs=[bound, WAITING], more=2), 100)
    assert lines[0].split() == ["GANG", "STATE", "BOUND", "WAITING", "ROUNDS", "DOMAIN", "WHY"]
    assert lines[1].split() == ["a/b", "bound", "1/1", "0", "0", "Block", "b1", "(1)"]
    assert "waits for 1 to leave" in lines[2]
    assert lines[3] == "and 2 more"


def test_what_is_asked() -> None:
    assert question_of("", None) == GangQuestion()
    assert question_of("", "team") == GangQuestion(namespace="team")
    assert question_of("train", None) == GangQuestion(namespace="default", name="train")
    assert question_of("gang/team/train", None) == GangQuestion(namespace="team", name="train")
