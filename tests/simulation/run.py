"""One seed from its first moment to its verdict.

Users and faults act until the temper's end; then nothing goes wrong any more, and all has to come to rest within its
time to settle (`settled`). Then the solvers are started anew, and nobody may have been forgotten (`forgotten`). The
observer judges every moment on the way.
"""

from __future__ import annotations

import gc
import hashlib
import random
import re
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from tests.simulation import last
from tests.simulation.errors import odd_errors
from tests.simulation.forgotten import Forgotten
from tests.simulation.given import Given
from tests.simulation.kinds import kind_of
from tests.simulation.node_agent import NODE_AGENT, Machine
from tests.simulation.node_agent import faults as agent_faults
from tests.simulation.planted import PLANTED
from tests.simulation.services import SPECS
from tests.simulation.settled import unsettled
from tests.simulation.settled.alarms import Alarms
from tests.simulation.settled.endings import Endings
from tests.simulation.stand import Stand, build
from tests.simulation.striking import Striker
from tests.simulation.temper import Temper
from tests.simulation.unmetered import unmetered
from tests.simulation.users import Users

from berth.invariants.report import EVIDENCE_MAX
from berth.telemetry.logs import Level
from berth.testing.simulation.world import uncollected

TRACE_LINES: Final = 60
_NAMES: Final = re.compile(r"(?:pod|gang|kept|node)-\d+(?:-(?:user-)?\d+)?")


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a seed.

    `kind`: what it dwelt on (`kinds`). `digest`: of every ledger message and the cluster's state at the end.
    """

    seed: int
    kind: str = ""
    digest: str
    trail: str
    simulated_s: float
    real_s: float
    callbacks: int
    violations: list[str] = []
    facts: dict[str, int] = {}
    trace: list[str] = []
    story: list[str] = []

    def summary(self) -> str:
        """One line."""
        told = ", ".join(f"{count} {name}" for name, count in self.facts.items())
        verdict = f"{len(self.violations)} promises BROKEN" if self.violations else "every promise kept"
        speed = self.simulated_s / max(self.real_s, 1e-9)
        kind = f" ({self.kind})" if self.kind else ""
        return f"seed {self.seed}{kind}: {verdict}; {self.simulated_s:.0f} s at {speed:.0f}x; {told}; {self.digest}"


def run_seed(seed: int, *, planted: str = "", verbose: bool = False, temper: Temper | None = None) -> Outcome:
    """Run it. With a bug planted it has that bug's temper, and ends when a promise is broken.

    Raises KeyError for an unknown bug to plant.
    """
    began = time.process_time()
    with ExitStack() as stack:
        if not planted:
            kind, drawn = kind_of(seed) if temper is None else ("", temper)
            return msgspec.structs.replace(_run(stack, seed, began, verbose, drawn), kind=kind)
        bug = PLANTED[planted]
        stack.enter_context(bug.plant())
        return _run(stack, seed, began, verbose, temper or bug.temper, in_haste=True)


def run_task(task: tuple[int, str]) -> Outcome:
    """For a pool of processes: a seed and the bug to plant."""
    if not gc.get_freeze_count():
        gc.freeze()  # the modules, which would be looked through at the end of every run
    return run_seed(task[0], planted=task[1])


def _run(
    stack: ExitStack, seed: int, began: float, verbose: bool, temper: Temper, *, in_haste: bool = False
) -> Outcome:
    stack.enter_context(temper.in_force())
    plan_rng = _chance(seed, "plan")
    size = temper.size._replace(end_s=temper.end_s)
    manifests = temper.cluster(plan_rng, size)
    actions = temper.actions(plan_rng, size)
    strikes = temper.faults(_chance(seed, "faults"), temper.end_s)
    replicas = temper.replicas(_chance(seed, "replicas"))
    strikes = sorted([*strikes, *temper.departures(_chance(seed, "departures"), replicas, temper.end_s)])
    level: Level = "debug" if verbose else "info"
    machine: Machine | None = None
    if replicas.get(NODE_AGENT):
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="berth-node-")))
        machine = Machine(folder, _chance(seed, "machine"), temper.end_s)
        stack.callback(machine.close)
        strikes = sorted([*strikes, *agent_faults(_chance(seed, "faults of the agent"), temper.end_s)])
    stand = build(seed, manifests, replicas, log_level=level, specs=temper.specs(SPECS), machine=machine)
    stack.callback(stand.world.close)
    stack.enter_context(stand.journal)
    stack.enter_context(unmetered())
    stack.enter_context(uncollected())
    given, forgotten, alarms = Given(stand.kube), Forgotten(stand), Alarms(stand)
    endings = Endings(stand)
    users, striker = Users(stand.world, stand.kube), temper.striker(stand)
    users.plan(actions)
    striker.plan(strikes)
    stand.world.later(temper.end_s, None, striker.calm)
    is_over = False
    if in_haste:
        is_over = stand.world.run_until(lambda: not stand.observer.ok, temper.whole_s, every_s=1.0)
    else:
        stand.world.run(temper.whole_s)
    left: list[str] = []
    waited_in_vain: list[str] = []
    if not is_over and not (left := _settle(stand, temper)):
        waited_in_vain = forgotten.look(lambda: users.act(last.changes(_chance(seed, "last"), stand)))
        left = _settle(stand, temper) if forgotten.asked else []
    stand.world.collect()
    report = stand.observer.finish(quiet=not left and not is_over, holds=given.holds())
    violations = [f"{result.name} {result.title}: {text}" for result in report.broken for text in result.evidence]
    violations += left
    violations += _raised_for_nothing(stand)
    violations += [f"L2 waits for nothing: {text}" for text in waited_in_vain]
    violations += [f"I1d device-used-as-given: {text}" for text in given.rewritten()[:EVIDENCE_MAX]]
    violations += [
        f"failed: {each.process} at {each.at_s:.3f} s: {each.error!r}" for each in stand.host.failures[:EVIDENCE_MAX]
    ]
    violations += [f"complaint: {text}" for text in stand.host.complaints()]
    violations += odd_errors(stand.journal.errors)
    violations += [f"untimely end: {text}" for text in endings.untimely]
    violations += [f"false alarm: {text}" for text in alarms.untrue(striker.troubles)] if not violations else []
    return Outcome(
        seed=seed,
        digest=_digest(stand),
        trail=stand.world.trail,
        simulated_s=stand.world.now,
        real_s=time.process_time() - began,
        callbacks=stand.world.callbacks,
        violations=violations,
        facts=_facts(stand, users, striker) | {"waited at the end": forgotten.asked},
        trace=_trace(stand, violations) if violations else [],
        story=[str(each) for each in strikes] + stand.journal.about() if verbose else [],
    )


def _raised_for_nothing(stand: Stand) -> list[str]:
    """An epoch holds up everybody: none is raised while LEDGER loses nothing."""
    first, newest = stand.nats.first_epoch, stand.observer.view.epoch.epoch
    is_needless = newest > first and not stand.nats.ledger_losses
    return [f"L1 an epoch for nothing: from {first} to {newest}, and LEDGER has lost nothing"] if is_needless else []


def _settle(stand: Stand, temper: Temper) -> list[str]:
    """Let time go by until all is settled; what is not when the time for it is over."""
    left: list[str] = []

    def is_settled() -> bool:
        left[:] = unsettled(stand)
        return not left

    stand.world.run_until(is_settled, temper.settle_s, every_s=2.0)
    return left


def _chance(seed: int, what: str) -> random.Random:
    return random.Random(f"{seed}/{what}")


def _facts(stand: Stand, users: Users, striker: Striker) -> dict[str, int]:
    view = stand.observer.view
    pods = list(stand.observer.pods.values())
    binds = sum(count for (verb, _, status), count in stand.kube.requests.items() if verb == "bind" and status == 201)
    return {
        "actions": users.done,
        "faults": striker.struck,
        "binds": binds,
        "pods at the end": len(pods),
        "of them bound": sum(bool(pod.node) for pod in pods),
        "epochs": view.epoch.epoch,
        "restarts": sum(replica.starts - 1 for replica in stand.host.replicas),
    }


def _digest(stand: Stand) -> str:
    """The world's running hash of the ledger, with all objects as they are now."""
    found = hashlib.blake2b(stand.world.digest.encode(), digest_size=16)
    for collection in stand.kube.store.state.collections.values():
        for key in sorted(collection.items):
            found.update(msgspec.json.encode(collection.items[key].data, order="deterministic"))
    return found.hexdigest()


def _trace(stand: Stand, violations: list[str]) -> list[str]:
    words = set(_NAMES.findall("\n".join(violations[:3])))
    lines = stand.journal.about(*sorted(words), "fault", "epoch") if words else stand.journal.about()
    return lines[-TRACE_LINES:]
