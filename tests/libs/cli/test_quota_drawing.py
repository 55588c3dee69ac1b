"""`berth quota`: the tree, the figures, and why they are what they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from berth.cli.quota_drawing import drawn
from berth.contracts.base import Problem
from berth.contracts.quota_question import QuotaAnswer, QuotaStanding

GI = 1 << 30
ANSWER = QuotaAnswer(
    ready=True,
    totals={"": {"cpu": 12_000}},
    groups=[
        QuotaStanding(
            tree="",
            name="company",
            limits=["cpu"],
            min={"cpu": 16_000},
            max={"cpu": 16_000},
            effective_min={"cpu": 12_000},
            runtime={"cpu": 12_000},
            used={"cpu": 9_000},
            request={"cpu": 14_000},
        ),
        QuotaStanding(
            tree="",
            name="blue",
            depth=1,
            limits=["cpu", "memory"],
            min={"cpu": 4_000},
            max={"cpu": 8_000, "memory": 8 * GI},
            effective_min={"cpu": 4_000},
            runtime={"cpu": 5_000, "memory": 8 * GI},
            used={"cpu": 6_000},
            request={"cpu": 8_000},
            borrowed={"cpu": 1_000},
            borrowed_from=["red"],
            pods=4,
            waiting=1,
            short=["cpu"],
        ),
        QuotaStanding(
            tree="",
            name="red",
            depth=1,
            limits=["cpu"],
            min={"cpu": 4_000},
            max={"cpu": 8_000},
            effective_min={"cpu": 4_000},
            runtime={"cpu": 3_000},
            used={"cpu": 3_000},
            request={"cpu": 3_000},
            lent={"cpu": 1_000},
            lent_to=["blue"],
            pods=1,
        ),
        QuotaStanding(
            tree="",
            name="lost",
            limits=["cpu"],
            max={"cpu": 1_000},
            detached=True,
            pods=1,
            waiting=1,
            problems=[Problem(field="metadata.labels[parent]", message="quota 'x' does not exist")],
        ),
    ],
)


def test_a_tree_with_its_figures_and_reasons() -> None:
    assert drawn(ANSWER, "", 100) == [
        "tree (default)",
        "  shares out 12 cpu",
        "  company",
        "         USED  RUNTIME  MIN  MAX  ASKED FOR",
        "    cpu     9       12   16   16         14",
        "    only 12 of its min of 16 cpu can be honoured (75 %): the mins of its level exceed what there is",
        "    blue  4 pods, 1 waiting",
        "              USED  RUNTIME  MIN  MAX  ASKED FOR",
        "      cpu        6        5    4    8          8",
        "      memory     0      8Gi    -  8Gi          0",
        "      uses more than it may of cpu: it gets nothing more of that until it is below",
        "      has borrowed 1 cpu from red",
        "      its pods ask for more cpu than it may use now",
        "    red  1 pod",
        "           USED  RUNTIME  MIN  MAX  ASKED FOR",
        "      cpu     3        3    4    8          3",
        "      lends 1 cpu that it does not ask for to blue",
        "  lost  1 pod, 1 waiting, belongs to no tree",
        "         USED  RUNTIME  MIN  MAX  ASKED FOR",
        "    cpu     0        -    -    1          0",
        "    metadata.labels[parent]: quota 'x' does not exist",
    ]


def test_each_tree_is_headed_once_and_tells_all_that_it_shares_out() -> None:
    """Groups that belong to no tree come after all others."""
    groups = [QuotaStanding(tree=tree, name=name) for tree, name in (("", "a"), ("t", "b"), ("", "lost"))]
    totals = {"": {f"example.com/resource-{n:02}": 1000 for n in range(12)}}
    lines = drawn(QuotaAnswer(ready=True, totals=totals, groups=groups), "", 60)
    assert [line for line in lines if line.startswith("tree")] == ["tree (default)", "tree t"]
    assert "example.com/resource-06" in " ".join(lines)
    assert max(map(len, lines)) <= 60


def test_nobody_is_there() -> None:
    assert drawn(QuotaAnswer(ready=True), "", 100) == ["there are no quota groups"]
    assert drawn(QuotaAnswer(ready=True), "x", 100) == ["there is no quota group x"]
    assert "more" in drawn(QuotaAnswer(groups=ANSWER.groups[:1], left_out=3), "", 100)[-1]


@given(st.integers(min_value=40, max_value=100))
def test_no_line_is_wider_than_the_terminal(columns_max: int) -> None:
    assert max(map(len, drawn(ANSWER, "", columns_max))) <= columns_max


def test_what_hooks_show_stands_below_the_figures() -> None:
    group = QuotaStanding(tree="", name="team", shown={"licences": {"seatsLeft": "2", "sold": "5"}})
    assert drawn(QuotaAnswer(ready=True, groups=[group]), "", 100)[-1] == "    hook licences: seatsLeft 2, sold 5"
