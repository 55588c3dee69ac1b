"""How prices look, on a terminal of 100 columns."""

from __future__ import annotations

from berth.cli.prices_drawing import drawn
from berth.contracts.prices import Admission, PricesAnswer, PriceTable, ScarceModel, SharePrice

NOW = 1_000_060.0
TABLE = PriceTable(
    solver="s1",
    version=1_000_000_000,
    since=1_000_000.0,
    source="duals",
    shares=[SharePrice(percent=size, price=size / 100) for size in (10, 20, 33, 47, 50, 65, 81)],
    turning_over=0.5,
    idle_gpu=24.0,
    step=0.9,
    whole_nodes=0.4,
    kept_whole=0.14,
    scarce=[ScarceModel(model="T4", cards=842, pressure=0.41)],
    admissions=[
        Admission(
            kind="card",
            name="T4 x2",
            worth=3.0,
            pods=3.0,
            of="1 GPU, 8 cores on T4",
            text="one more card of T4 x2 nodes admits 3 pods of 1 GPU, 8 cores on T4",
        )
    ],
    arrivals=4000,
)


def test_a_table() -> None:
    answer = PricesAnswer(solver="s1", table=TABLE, last="used", at=1_000_000.0, took_s=0.31, counts={"used": 2})
    assert drawn([answer], NOW, 100) == [
        "solver s1: version 1000000000, since 60 s ago, by duals",
        "  price maker  used 60 s ago, took 0.31 s (in all 2 used)",
        "  nodes        full ones first, since pods leave or cores lack, 50 %: 8 idle GPUs cost 24, grain 0.9",
        "  whole nodes  14 % of the largest are kept, since pods that need one ask for 40 % of all GPUs",
        "  shares       what part of a card a share of it is worth",
        "               10 %: 0.100  20 %: 0.200  33 %: 0.330  47 %: 0.470  50 %: 0.500  65 %: 0.650",
        "               81 %: 0.810",
        "  scarce       cards that those ask for who can go to few others",
        "               T4  0.41  of 842 cards",
        "  one more     of what is short",
        "               one more card of T4 x2 nodes admits 3 pods of 1 GPU, 8 cores on T4",
    ]


def test_an_answer_that_was_refused_has_its_name() -> None:
    answer = PricesAnswer(solver="s1", table=TABLE, last="nan", message="shares[4] is no number", at=1_000_000.0)
    assert "  price maker  nan 60 s ago: shares[4] is no number" in drawn([answer], NOW, 100)


def test_a_solver_that_knows_nothing_yet() -> None:
    answer = PricesAnswer(solver="s1", table=PriceTable(solver="s1", version=0, arrivals=7), asked_from=1500)
    assert drawn([answer], NOW, 100) == [
        "solver s1: constants: too little has come to know what arrives",
        "  price maker  is asked from 1500 pods with GPUs on; 7 have come",
    ]
