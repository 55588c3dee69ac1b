"""One run of the tuner: search on the arrivals that are seen, then judge on the later ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from berth.cli.tuning.measuring import Measuring
from berth.cli.tuning.report import Report
from berth.cli.tuning.search import ORDERS, Turn, search
from berth.cli.tuning.settings import changed, current
from berth.cli.tuning.site import Arrival, Site, parted
from berth.cli.tuning.verdict import Compared, Verdict, compared, judged

NOTHING: Final = Verdict(False, "nothing better was found on the arrivals that the search has seen")


class Plan(NamedTuple):
    """How it is done. `turns` is None: as many as there is time for."""

    seen: float = 0.7
    search_nodes: int = 100
    judge_nodes: int = 300
    orders: int = 8
    budget_s: float = 600.0
    turns: int | None = None
    seed: int = 1


def tuned(
    site: Site,
    arrivals: Sequence[Arrival],
    plan: Plan,
    clock: Callable[[], float],
    tell: Callable[[str], None],
    on_play: Callable[[], None] = lambda: None,
) -> Report:
    """All of it. Raises CliError, and what `on_play` raises, which is called after each run.

    `clock` is monotonic, in seconds; `tell` says how far it is.
    """
    began = clock()
    start, parts = current(site.configuration, site.scheduler), parted(arrivals, plan.seen)
    small, large = site.sample(plan.search_nodes, plan.seed), site.sample(plan.judge_nodes, plan.seed + 1)
    measuring = Measuring(small, parts.seen, plan.seed)
    measuring.on_play = on_play

    def is_over(turn: int) -> bool:
        return turn >= plan.turns if plan.turns is not None else clock() - began >= plan.budget_s

    def told_turn(turn: Turn) -> None:
        gains = ", ".join(f"{score} {gain:+.2f}" for score, gain in turn.gains.items())
        kept = "kept" if turn.is_kept else "not kept"
        tell(f"turn {turn.number + 1}, {turn.block}: {gains}, {kept}; {clock() - began:.0f} s, {measuring.played} runs")

    best, turns = search(measuring, start, plan.seed, is_over, told_turn)
    change = changed(best, start)
    seen: Compared | None = None
    unseen: Compared | None = None
    judging = Measuring(large, parts.unseen, plan.seed)
    judging.on_play = on_play
    if change:
        seen = compared(measuring, start, best, ORDERS[-1], lambda _: None)
        unseen = compared(
            judging, start, best, plan.orders, lambda done: tell(f"judged in {done} of {plan.orders} orders")
        )
    return Report(
        scheduler=site.scheduler,
        arrivals={"seen": len(parts.seen), "unseen": len(parts.unseen)},
        nodes={"all": len(site.nodes), "search": len(small.nodes), "judged": len(large.nodes)},
        about=site.about,
        repeat=f"--seed {plan.seed} --turns {len(turns)}",
        orders={"seen": ORDERS[-1], "unseen": plan.orders},
        turns=turns,
        played=measuring.played + judging.played,
        took_s=clock() - began,
        settings=change,
        seen=seen,
        unseen=unseen,
        verdict=NOTHING if unseen is None else judged(unseen),
    )
