"""What a node lends, as people see it: every term, what waits, who left and why; wide and narrow."""

import pytest

from berth.cli.lending_lines import lending_lines, strategy_lines, trail_lines
from berth.contracts.base import Problem
from berth.contracts.names import BATCH_CPU, BATCH_MEMORY
from berth.contracts.node_audit import Departure, LendingAnswer, TrailAnswer, TrailEntry
from berth.contracts.slo import NodeOffer, Offer, ZoneOffer

GI = 2**30
NOW_S = 1_000_000.0
CPU_TERMS = {"capacity": 100_000, "margin": -40_000, "system": -7_000, "pods": -19_500, "thirdParties": -2_000}
OFFER = NodeOffer(
    node="n",
    revision=42,
    reporter="agent",
    strategy="careful",
    offers={
        BATCH_CPU: Offer(amount=31_500, terms=CPU_TERMS),
        BATCH_MEMORY: Offer(amount=120 * GI, terms={"capacity": 400 * GI, "margin": -280 * GI}),
    },
    zones=[ZoneOffer(zone=zone, amounts={BATCH_CPU: 15_000, BATCH_MEMORY: 60 * GI}) for zone in (0, 1)],
    zones_written=[
        ZoneOffer(zone=0, amounts={BATCH_CPU: 15_000, BATCH_MEMORY: 60 * GI}),
        ZoneOffer(zone=1, amounts={BATCH_CPU: 16_000, BATCH_MEMORY: 60 * GI}),
    ],
)
ANSWER = LendingAnswer(
    name="n",
    outcome="known",
    at=NOW_S,
    offer=OFFER,
    newest={
        BATCH_CPU: Offer(amount=31_500, terms={"capacity": 50_000, "waiting": -18_500}),
        BATCH_MEMORY: Offer(amount=120 * GI, terms={}),
    },
    reported_at=NOW_S - 12,
    shown={BATCH_CPU: 31_500, BATCH_MEMORY: 100 * GI},
    strategies={"colocation": "careful"},
    departures=[
        Departure(
            holder="d/report",
            state="granted",
            feature="BEMemoryEvict",
            message="memory 82 % used, 70 % allowed",
            at=NOW_S - 60,
            left=NOW_S - 30,
        ),
        Departure(holder="d/etl", state="refused", feature="BEMemoryEvict", reason="a budget", at=NOW_S - 90),
    ],
    problems=[Problem(field="metadata.labels[x]", message="is no number from 0 on")],
)


def test_every_term_of_the_sum_is_shown():
    assert lending_lines(ANSWER, 110) == [
        "",
        "  LENDS  revision 42, strategy careful, its agent reported 12 s ago",
        "    batch-cpu     31500m = 100 capacity - 40 margin - 7 system - 19500m pods - 2 third parties",
        "                  50 by the newest report: 18500m of it waits for a second one",
        "    batch-memory  120Gi = 400Gi capacity - 280Gi margin",
        "                  the node shows 100Gi",
        "    zone 0        batch-cpu 15, batch-memory 60Gi",
        "    zone 1        batch-cpu 15, batch-memory 60Gi",
        "                  its topology shows batch-cpu 16, batch-memory 60Gi",
        "    by            careful for colocation",
        "    problem       metadata.labels[x]: is no number from 0 on",
        "",
        "  EVICTIONS",
        "    d/report  granted 60 s ago, left 30 s ago  BEMemoryEvict: memory 82 % used, 70 % allowed",
        "    d/etl  refused 90 s ago  BEMemoryEvict: a budget",
    ]


def test_where_nothing_is_lent_the_reason_is_said():
    answer = LendingAnswer(name="n", outcome="known", offer=NodeOffer(node="n", reason="the report is too old"))
    assert lending_lines(answer, 80) == ["", "  LENDS  nothing: the report is too old"]
    assert lending_lines(LendingAnswer(name="n", outcome="known"), 80) == []


@pytest.mark.parametrize("columns", [40, 60, 80, 132])
def test_no_word_is_lost_on_a_narrow_terminal(columns):
    lines = lending_lines(ANSWER, columns)
    assert max(map(len, lines)) <= max(columns, 70)
    text = " ".join(" ".join(lines).split())
    for words in (
        "third parties",
        "waits for a second one",
        "the node shows 100Gi",
        "a budget",
        "31500m = 100 capacity",
    ):
        assert words in text
    long = {"cpu-suppress": "holds 6 values", "cores": "lacks sched_core in this kernel and does nothing " * 2}
    drawn = strategy_lines(long, columns)
    assert max(map(len, drawn)) <= columns
    assert " ".join(" ".join(drawn).split()).count("does nothing") == 2


def test_the_trail_has_the_newest_first_and_what_was_given_back():
    entries = [
        TrailEntry(path="kubepods/besteffort/cpu.max", text="320000 100000", at=NOW_S - 1, times=41),
        TrailEntry(path="kubepods/besteffort/memory.high", text="max", at=NOW_S - 300, undone=True),
    ]
    assert trail_lines(TrailAnswer(node="n", at=NOW_S, entries=entries)) == [
        "",
        "  WRITTEN LAST",
        "    1 s ago    kubepods/besteffort/cpu.max      = 320000 100000  (41 times)",
        "    5 min ago  kubepods/besteffort/memory.high  given back max",
    ]
    assert trail_lines(TrailAnswer(node="n")) == []
    assert trail_lines(TrailAnswer(node="n", entries=entries * 8))[-1] == "    and 4 more: --json has them"
