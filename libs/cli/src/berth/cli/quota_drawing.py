"""Quota groups for people: a tree, a row of figures for each resource, and below it why they are what they are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from berth.cli.output import columns, fitted, wrapped
from berth.contracts.quota_question import QuotaAnswer, QuotaStanding
from berth.resources.amounts import format_amount

UNLIMITED: Final = 1 << 59
"""A max of this and above is none: the built-in groups have a fifth of the largest integer."""
HEADINGS: Final = ("USED", "RUNTIME", "MIN", "MAX", "ASKED FOR")


def drawn(answer: QuotaAnswer, asked: str, columns_max: int) -> list[str]:
    """The answer in lines of so many columns; `asked`: the group that it was asked about."""
    if not answer.groups:
        return [f"there is no quota group {asked}" if asked else "there are no quota groups"]
    lines: list[str] = [] if answer.ready else ["quota-manager has not seen everything yet: figures may be too low"]
    for tree, groups in groupby(sorted(answer.groups, key=lambda group: group.tree), key=lambda group: group.tree):
        total = answer.totals.get(tree, {})
        has = ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in sorted(total.items()) if amount)
        lines.append(f"tree {tree or '(default)'}")
        lines += wrapped(f"shares out {has}" if has else "has nothing to share out", indent="  ", width=columns_max)
        for group in groups:
            lines += _group(group, answer, columns_max)
    if answer.left_out:
        lines.append(f"... and {answer.left_out} more: name a group to see those above and below it")
    return [fitted(line, columns_max) for line in lines]


def _group(group: QuotaStanding, answer: QuotaAnswer, columns_max: int) -> Iterator[str]:
    indent = "  " * (group.depth + 1)
    pods = f"{group.pods} pod{'' if group.pods == 1 else 's'}" if group.pods else ""
    waiting = f"{group.waiting} waiting" if group.waiting else ""
    what = ", ".join(filter(None, (pods, waiting, "belongs to no tree" if group.detached else "")))
    yield f"{indent}{group.name}" + (f"  {what}" if what else "")
    names = [name for name in sorted({*group.limits, *group.used}) if _matters(group, name)]
    if names:
        rows = [("", *HEADINGS), *((name, *_figures(group, name, answer)) for name in names)]
        yield from columns(rows, indent=f"{indent}  ", right=range(1, len(HEADINGS) + 1))
    for reason in _reasons(group, answer):
        first, *rest = wrapped(reason, indent=f"{indent}  ", width=columns_max)
        yield from (first, *rest)


def _matters(group: QuotaStanding, name: str) -> bool:
    limits_it = group.max.get(name, UNLIMITED) < UNLIMITED
    return limits_it or any(amounts.get(name) for amounts in (group.used, group.request, group.min))


def _figures(group: QuotaStanding, name: str, answer: QuotaAnswer) -> Iterator[str]:
    def shown(amounts: dict[str, int]) -> str:
        amount = amounts.get(name)
        return "-" if amount is None or amount >= UNLIMITED else format_amount(name, amount)

    yield format_amount(name, group.used.get(name, 0))
    yield shown(group.runtime if answer.uses_runtime else group.max) if name in group.limits else "-"
    yield shown(group.min)
    yield shown(group.max)
    yield format_amount(name, group.request.get(name, 0))


def _reasons(group: QuotaStanding, answer: QuotaAnswer) -> Iterator[str]:
    """Why the figures are what they are, one sentence each."""
    limits = group.runtime if answer.uses_runtime else group.max
    over = [name for name in group.limits if group.used.get(name, 0) > limits.get(name, 0)]
    if over:
        yield f"uses more than it may of {', '.join(over)}: it gets nothing more of that until it is below"
    scaled = [name for name, amount in sorted(group.effective_min.items()) if amount < group.min.get(name, 0)]
    for name in scaled:
        least, whole = group.effective_min[name], group.min[name]
        part = f"{format_amount(name, least)} of its min of {format_amount(name, whole)} {name}"
        yield f"only {part} can be honoured ({100 * least // whole} %): the mins of its level exceed what there is"
    if group.lent:
        yield f"lends {_listed(group.lent)} that it does not ask for{_to(' to', group.lent_to)}"
    if group.borrowed:
        source = _to(" from", group.borrowed_from) or " that nobody was promised"
        yield f"has borrowed {_listed(group.borrowed)}{source}"
    if group.guarantees:
        yield "what its pods use is guaranteed, and its idle min is not lent"
    elif not group.lends:
        yield "its idle min is not lent"
    if group.short:
        yield f"its pods ask for more {', '.join(group.short)} than it may use now"
    elif group.waiting and not group.detached:
        yield "its waiting pods do not wait for its own share: a group above it may be full, or the nodes are"
    for hook, fields in sorted(group.shown.items()):
        yield f"hook {hook}: {', '.join(f'{name} {text}' for name, text in sorted(fields.items()))}"
    for problem in group.problems:
        yield f"{problem.field}: {problem.message}"


def _listed(amounts: dict[str, int]) -> str:
    return ", ".join(f"{format_amount(name, amount)} {name}" for name, amount in sorted(amounts.items()))


def _to(word: str, names: list[str]) -> str:
    return f"{word} {', '.join(names)}" if names else ""
