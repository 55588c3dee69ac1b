"""Tables of prices for people: what shares are worth, which cards are scarce, what one more would admit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from berth.cli.facts import ago
from berth.cli.output import columns, fitted, wrapped
from berth.contracts.prices import PricesAnswer, PriceTable

REFUSED: Final = ("nan", "negative", "excessive", "malformed", "worthless", "jump")
"""What the last answer of a price maker is called when it was not believed."""
IN_A_LINE: Final = 6


def drawn(answers: Sequence[PricesAnswer], now: float, columns_max: int) -> list[str]:
    """One table for each solver."""
    return [fitted(line, columns_max) for answer in answers for line in _of_solver(answer, now, columns_max)]


def _of_solver(answer: PricesAnswer, now: float, columns_max: int) -> Iterator[str]:
    table = answer.table
    if table is None or not table.version:
        yield f"solver {answer.solver}: constants: too little has come to know what arrives"
    else:
        yield f"solver {answer.solver}: version {table.version}, since {ago(table.since, now)}, by {_source(table)}"
    yield from wrapped(_maker(answer, now), indent="  price maker  ", width=columns_max)[:1]
    if table is None or not table.version:
        return
    yield f"  nodes        {_fullness(table)}"
    if table.whole_nodes:
        asked = f"pods that need one ask for {100 * table.whole_nodes:.0f} % of all GPUs"
        yield f"  whole nodes  {100 * table.kept_whole:.0f} % of the largest are kept, since {asked}"
    if table.shares:
        yield "  shares       what part of a card a share of it is worth"
        cells = [f"{each.percent} %: {each.price:.3f}" for each in table.shares]
        rows = [cells[at : at + IN_A_LINE] for at in range(0, len(cells), IN_A_LINE)]
        yield from columns(rows, indent=" " * 15)
    if table.scarce:
        yield "  scarce       cards that those ask for who can go to few others"
        rows = [[each.model or "GPU", f"{each.pressure:.2f}", f"of {each.cards} cards"] for each in table.scarce]
        yield from columns(rows, indent=" " * 15)
    if table.admissions:
        yield "  one more     of what is short"
        for each in table.admissions:
            yield from wrapped(each.text, indent=" " * 15, width=columns_max)


def _source(table: PriceTable) -> str:
    return "duals" if table.source == "duals" else "constants for the sizes that arrive"


def _maker(answer: PricesAnswer, now: float) -> str:
    counted = ", ".join(f"{number} {name}" for name, number in sorted(answer.counts.items()))
    counted = f" (in all {counted})" if counted else ""
    if not answer.last:
        arrivals = answer.table.arrivals if answer.table is not None else 0
        return f"is asked from {answer.asked_from} pods with GPUs on; {arrivals} have come"
    if answer.last == "asked":
        return f"was asked {ago(answer.at, now)}{counted}"
    took = f", took {answer.took_s:.2g} s" if answer.last == "used" else f": {answer.message}"
    return f"{answer.last} {ago(answer.at, now)}{took}{counted}"


def _fullness(table: PriceTable) -> str:
    what = "pods only come"
    if table.turning_over:
        what = f"pods leave or cores lack, {100 * table.turning_over:.0f} %"
    draws = "full ones first" if table.idle_gpu > 0 else "evenly"
    return f"{draws}, since {what}: 8 idle GPUs cost {table.idle_gpu:.3g}, grain {table.step:.2g}"
