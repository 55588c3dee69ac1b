"""`berth what-if`: what would become of pods that are not there, without some nodes, with other quotas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from berth.bus import Bus, NoAnswer, RemoteError
from berth.cli.asking import nobody, on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.commands.profile import of_bus
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.judge import read_bucket
from berth.cli.lines import grants_text, reason_line
from berth.cli.output import columns, fitted, width, wrapped
from berth.cli.supposed import Manifests, quotas_of, supposed
from berth.contracts import buckets
from berth.contracts.base import Message, Problem
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.subjects import question_subject
from berth.contracts.what_if import QuotasIfAnswer, QuotasIfQuestion, WhatIfAnswer, WhatIfPod, WhatIfQuestion

A = TypeVar("A", bound=Message)

SOLVER: Final = ("placement-solver", "whatif")
QUOTAS: Final = ("quota-manager", "quotasif")
GRACE_S: Final = 15.0
"""Beyond the time limit: the solver's own, and the wait for its turn."""
NAMED_MAX: Final = 4


class Wish(NamedTuple):
    """What was asked for by options."""

    files: Sequence[Path]
    namespace: str | None
    without_nodes: Sequence[str]
    quotas: Sequence[str]
    profile: str
    limit_s: float


async def what_if(wish: Wish, *, bus: BusOptions, as_json: bool) -> int:
    """Print it; EXIT_BAD when one of the pods would get no place, or the question cannot be answered."""
    quotas = quotas_of(wish.quotas)
    if not (wish.files or wish.without_nodes or quotas):
        raise CliError("suppose something: -f FILE, --without-node NODE or --quota GROUP=max.RESOURCE=QUANTITY")

    async def ask(link: Bus) -> WhatIfAnswer:
        pods, gangs = await _manifests(link, wish) if wish.files else Manifests([], [])
        gone = list(wish.without_nodes)
        of_quotas = QuotasIfQuestion(pods=pods, without_nodes=gone, quotas=quotas)
        groups = await _asked(link, QUOTAS, of_quotas, QuotasIfAnswer, GRACE_S)
        if groups.outcome != "answered":
            raise CliError(f"quota-manager: {groups.outcome}: {_problems(groups.problems) or groups.message}")
        question = WhatIfQuestion(
            pods=pods,
            gangs=gangs,
            without_nodes=gone,
            groups=groups.groups,
            profile=wish.profile,
            time_limit_s=wish.limit_s,
        )
        return await _asked(link, SOLVER, question, WhatIfAnswer, wish.limit_s + GRACE_S)

    answer = await on_bus(bus, ask)
    if as_json:
        print(msgspec.json.encode(answer).decode())
    else:
        print("\n".join(shown(answer, width())))
    fine = answer.outcome == "answered" and not answer.is_cut_off
    return EXIT_OK if fine and all(each.outcome == "placed" for each in answer.pods) else EXIT_BAD


async def _manifests(bus: Bus, wish: Wish) -> Manifests:
    views = (await of_bus(bus)).views
    return supposed(wish.files, wish.namespace, views, asks_webhook=await _asks_webhook(bus))


async def _asked(bus: Bus, to: tuple[str, str], question: Message, answer: type[A], timeout_s: float) -> A:
    service, verb = to
    try:
        return decode(await bus.ask(question_subject(service, verb), encode(question), timeout_s=timeout_s), answer)
    except InvalidMessage as error:
        raise CliError(f"that cannot be asked: {error}") from error
    except NoAnswer:
        raise nobody(service) from None
    except RemoteError as error:
        raise CliError(f"{service} does not answer: {error}") from error


async def _asks_webhook(bus: Bus) -> bool:
    """Whether Berth's webhook changes pods that are created in this cluster."""
    return bool(await read_bucket(bus, buckets.STATE, "mutatingwebhookconfiguration.*"))


def shown(answer: WhatIfAnswer, columns_max: int) -> list[str]:
    """The answer for people, in lines of so many columns."""
    if answer.outcome != "answered":
        return [f"{answer.outcome}  {_problems(answer.problems) or answer.message}"]
    at = ", ".join(f"{name} {answer.at[name]}" for name in ("ledger", "pods") if name in answer.at)
    lines = [f"as of {at}; {answer.rounds} rounds in {answer.took_ms} ms by {answer.solver}; nothing is written"]
    if answer.is_cut_off:
        lines.append("cut off: time ran out before all was decided; --limit gives more")
    rows = [("pod", "", "would be", "where"), *map(_row, answer.pods)]
    lines += [fitted(row, columns_max) for row in columns(rows)] if answer.pods else ["no pod is concerned"]
    for text, who in _refusals(answer.pods).items():
        names = f"{', '.join(who[:NAMED_MAX])}{f' and {len(who) - NAMED_MAX} more' if len(who) > NAMED_MAX else ''}"
        lines += wrapped(f"{names}: {text}", indent="  ", width=columns_max)
    if answer.victims:
        leaving = [("leaves", "from", "for")]
        leaving += [(each.name, each.node, ", ".join(each.beneficiaries[:NAMED_MAX])) for each in answer.victims]
        lines += [fitted(row, columns_max) for row in columns(leaving)]
    if answer.left_out:
        lines.append(f"{answer.left_out} more are left out")
    return lines


def _row(pod: WhatIfPod) -> tuple[str, str, str, str]:
    after = f", after {len(pod.victims)} left" if pod.victims else ""
    parts = [pod.node, grants_text(pod.grants)]
    parts += [f"reservation {pod.reservation}"] if pod.reservation else []
    parts += [f"quota {pod.quota.removeprefix('/')}"] if pod.quota and pod.node else []
    return pod.name, pod.origin, pod.outcome, "  ".join(filter(None, parts)) + after


def _refusals(pods: Sequence[WhatIfPod]) -> dict[str, list[str]]:
    """Who has no place, by why."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        for text in _why(pod):
            found.setdefault(text, []).append(pod.name)
    return found


def _why(pod: WhatIfPod) -> Iterator[str]:
    if pod.outcome == "placed":
        return
    yield from dict.fromkeys(map(reason_line, pod.reasons)) or ([pod.message] if pod.message else [])
    yield from (f"{each.field}: {each.message}" for each in pod.problems)
    yield from (f"it would help to {each.repair}" for each in pod.reasons if each.repair)


def _problems(problems: Sequence[Problem]) -> str:
    return "; ".join(f"{each.field}: {each.message}" for each in problems[:NAMED_MAX])
