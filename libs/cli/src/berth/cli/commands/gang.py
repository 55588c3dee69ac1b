"""`berth gang`: how far a gang is: its members, what they wait for, where they lie; or a line for each gang."""

from __future__ import annotations

import msgspec

from berth.bus import Bus
from berth.cli.asking import ask_replicas, nobody, on_bus
from berth.cli.bus_options import BusOptions
from berth.cli.errors import EXIT_BAD, EXIT_OK, CliError
from berth.cli.gang_lines import drawn, table
from berth.cli.output import width
from berth.contracts.gang_question import GangAnswer, GangQuestion, GangView
from berth.contracts.subjects import question_subject

SUBJECT = question_subject("placement-solver", "gang")
GOOD = ("bound", "decided")


def question_of(name: str, namespace: str | None) -> GangQuestion:
    """The question from nothing, `NAME` or `NAMESPACE/NAME`, with `gang/` before it or not. Raises CliError."""
    before, _, after = name.removeprefix("gang/").rpartition("/")
    if "/" in before or (name and not after):
        raise CliError(f"{name!r} is not the name of a gang: write NAME or NAMESPACE/NAME")
    if before and namespace not in (None, before):
        raise CliError(f"{name} names another namespace than -n {namespace}")
    if not after:
        return GangQuestion(namespace=namespace or "")
    return GangQuestion(namespace=before or namespace or "default", name=after)


async def ask_gangs(bus: Bus, question: GangQuestion) -> GangAnswer | None:
    """What all solvers answer, each gang by the one that decides it; None when none answers."""
    answers = await ask_replicas(bus, SUBJECT, question, GangAnswer)
    if not answers:
        return None
    found: dict[tuple[str, str], GangView] = {}
    for view in sorted((view for answer in answers for view in answer.gangs), key=lambda view: view.mine):
        found[view.namespace, view.name] = view
    return GangAnswer(gangs=[found[key] for key in sorted(found)], more=max(answer.more for answer in answers))


async def gang(name: str, *, namespace: str | None, bus: BusOptions, as_json: bool) -> int:
    """Print the gang, EXIT_BAD when it has not begun or is not known; or all of them."""
    question = question_of(name, namespace)
    answer = await on_bus(bus, lambda link: ask_gangs(link, question))
    if answer is None:
        raise nobody("placement-solver")
    if as_json:
        print(msgspec.json.encode(answer).decode())
    elif not question.name:
        print("\n".join(table(answer, width())))
    elif not answer.gangs:
        print(f"gang/{question.namespace}/{question.name}  unknown: no PodGroup of this name, and no pod that names it")
    else:
        print("\n".join(drawn(answer.gangs[0], width())))
    if not question.name:
        return EXIT_OK
    return EXIT_OK if answer.gangs and answer.gangs[0].outcome in GOOD else EXIT_BAD
