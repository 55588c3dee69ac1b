"""One seed from its first moment to its verdict.

Users and faults act until the profile's end; then nothing goes wrong any more, and all has to come to rest within its
time to settle (`settled`). Then the solvers are started anew, and nobody may have been forgotten (`forgotten`). The
observer judges every moment on the way.
"""

from __future__ import annotations

import gc
import hashlib
import random
import re
import time
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch
from zlib import crc32

import msgspec
from tests.simulation import last
from tests.simulation.epochs import for_nothing
from tests.simulation.errors import odd_errors
from tests.simulation.fault_injection import FaultInjector
from tests.simulation.forgotten import Forgotten
from tests.simulation.given import Given
from tests.simulation.harness import Harness, build
from tests.simulation.laws import Applied
from tests.simulation.node_agent import NODE_AGENT, Machine
from tests.simulation.node_agent import faults as agent_faults
from tests.simulation.planted import PLANTED
from tests.simulation.profiles import kind_of
from tests.simulation.recording import RECORDER, Recording
from tests.simulation.rights import beyond
from tests.simulation.run_profile import RunProfile
from tests.simulation.services import SPECS
from tests.simulation.settled import unsettled
from tests.simulation.settled.alarms import Alarms
from tests.simulation.settled.bounded import LAW as BOUNDS_LAW
from tests.simulation.settled.bounded import Bounds
from tests.simulation.settled.endings import Endings
from tests.simulation.settled.priced import LAW as PRICES_LAW
from tests.simulation.settled.priced import PriceTables
from tests.simulation.settled.told import StatusRequests
from tests.simulation.unmetered import unmetered
from tests.simulation.users import Users
from tests.simulation.webhooks import LAW as WEBHOOK_LAW
from tests.simulation.yarn_cluster import YARN_OPERATOR, SimYarn

from berth.contracts.explanation import Repair
from berth.invariants import Counts
from berth.invariants.report import EVIDENCE_MAX
from berth.placement_solver.core.explanation.repairs import repairs_of
from berth.placement_solver.core.plan import Unit
from berth.telemetry.logs import Level
from berth.testing.simulation.world import uncollected

TRACE_LINES: Final = 60
_NAMES: Final = re.compile(
    r"(?:pod|gang|kept|own|mates|node|claim|set|gated|mirror|scratch|local)-\d+(?:-(?:user-)?\d+)?"
)


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a seed.

    `kind`: what it dwelt on (`profiles`). `digest`: of every ledger message and the cluster's state at the end.
    `applied`: how often each law was.
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
    applied: Applied = msgspec.field(default_factory=Applied)
    trace: list[str] = []
    story: list[str] = []

    def summary(self) -> str:
        """One line."""
        told = ", ".join(f"{count} {name}" for name, count in self.facts.items())
        verdict = f"{len(self.violations)} promises BROKEN" if self.violations else "every promise kept"
        speed = self.simulated_s / max(self.real_s, 1e-9)
        kind = f" ({self.kind})" if self.kind else ""
        return f"seed {self.seed}{kind}: {verdict}; {self.simulated_s:.0f} s at {speed:.0f}x; {told}; {self.digest}"


def run_seed(seed: int, *, planted: str = "", verbose: bool = False, profile: RunProfile | None = None) -> Outcome:
    """Run it. With a bug planted it has that bug's profile, and ends when a promise is broken.

    Raises KeyError for an unknown bug to plant.
    """
    began = time.process_time()
    with ExitStack() as stack:
        if not planted:
            kind, drawn = kind_of(seed) if profile is None else ("", profile)
            return msgspec.structs.replace(_run(stack, seed, began, verbose, drawn), kind=kind)
        bug = PLANTED[planted]
        stack.enter_context(bug.plant())
        return _run(stack, seed, began, verbose, profile or bug.profile, in_haste=True)


def _some_repairs(unit: Unit, *others: Any) -> Generator[None, None, list[Repair]]:
    """Of every fourth pod or gang: to look for repairs takes half of the time of a run, and decides nothing."""
    if crc32(unit.id.encode()) % 4:
        return []
    return (yield from repairs_of(unit, *others))


def run_task(task: tuple[int, str]) -> Outcome:
    """For a pool of processes: a seed and the bug to plant."""
    if not gc.get_freeze_count():
        gc.freeze()  # the modules, which would be looked through at the end of every run
    return run_seed(task[0], planted=task[1])


def _run(
    stack: ExitStack, seed: int, began: float, verbose: bool, profile: RunProfile, *, in_haste: bool = False
) -> Outcome:
    stack.enter_context(profile.in_force())
    stack.enter_context(patch("berth.placement_solver.core.explanation.explaining.repairs_of", _some_repairs))
    plan_rng = _chance(seed, "plan")
    size = profile.size._replace(end_s=profile.end_s)
    manifests = profile.cluster(plan_rng, size)
    actions = profile.actions(plan_rng, size)
    strikes = profile.faults(_chance(seed, "faults"), profile.end_s)
    replicas = profile.replicas(_chance(seed, "replicas"))
    strikes = sorted([*strikes, *profile.departures(_chance(seed, "departures"), replicas, profile.end_s)])
    level: Level = "debug" if verbose else "info"
    machine: Machine | None = None
    if replicas.get(NODE_AGENT):
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="berth-node-")))
        machine = profile.machine(folder, _chance(seed, "machine"), profile.end_s)
        stack.callback(machine.close)
        strikes = sorted([*strikes, *agent_faults(_chance(seed, "faults of the agent"), profile.end_s)])
    yarn = SimYarn(_chance(seed, "yarn")) if replicas.get(YARN_OPERATOR) else None
    recording = Recording() if replicas.get(RECORDER) else None
    harness = build(
        seed,
        manifests,
        replicas,
        log_level=level,
        specs=profile.specs(SPECS),
        machine=machine,
        yarn=yarn,
        recording=recording,
        controllers=profile.controllers,
    )
    stack.callback(harness.world.close)
    stack.enter_context(harness.journal)
    stack.enter_context(unmetered())
    stack.enter_context(uncollected())
    given, forgotten, alarms = Given(harness.kube, harness.observer.verdicts), Forgotten(harness), Alarms(harness)
    endings, writes, tables = Endings(harness), StatusRequests(harness), PriceTables(harness)
    bounds = Bounds(harness)
    users, injector = Users(harness.world, harness.kube), profile.injector(harness)
    users.plan(actions)
    injector.plan(strikes)
    harness.world.later(profile.end_s, None, injector.calm)
    is_over = False
    if in_haste:
        is_over = harness.world.run_until(lambda: not harness.observer.ok, profile.whole_s, every_s=1.0)
    else:
        harness.world.run(profile.whole_s)
    left: list[str] = []
    waited_in_vain: list[str] = []
    if not is_over and not (left := _settle(harness, profile)):
        waited_in_vain = forgotten.look(lambda: users.act(last.changes(_chance(seed, "last"), harness)))
        left = _settle(harness, profile) if forgotten.asked else []
    harness.world.collect()
    report = harness.observer.finish(quiet=not left and not is_over, holds=given.holds())
    violations = [f"{result.name} {result.title}: {text}" for result in report.broken for text in result.evidence]
    violations += left
    nats = harness.nats
    violations += for_nothing(nats.losses, harness.lease.named, nats.begun, harness.observer.verdicts)
    violations += [f"L2 waits for nothing: {text}" for text in waited_in_vain]
    violations += [f"I1d device-used-as-given: {text}" for text in given.rewritten()[:EVIDENCE_MAX]]
    violations += [f"kubelet {text}" for text in (machine.broken() if machine is not None else [])[:EVIDENCE_MAX]]
    violations += [
        f"failed: {each.process} at {each.at_s:.3f} s: {each.error!r}" for each in harness.host.failures[:EVIDENCE_MAX]
    ]
    violations += [f"failure: {text}" for text in harness.host.unseen_failures()]
    violations += odd_errors(harness.journal.errors)
    if harness.kube.webhooks is not None:
        untold = [] if left or is_over else harness.kube.webhooks.unreported()
        violations += [f"{WEBHOOK_LAW} {text}" for text in [*harness.kube.webhooks.broken, *untold][:EVIDENCE_MAX]]
    violations += beyond(harness.rights, harness.observer.verdicts)
    if recording is not None:
        unrecorded = [] if left or is_over else recording.forgotten(harness)
        violations += [*recording.broken(harness.observer.verdicts), *unrecorded][:EVIDENCE_MAX]
    violations += [f"untimely end: {text}" for text in endings.untimely]
    violations += [f"told {text}" for text in writes.too_often]
    lost_tables = [] if left or is_over else tables.missing()
    violations += [f"{PRICES_LAW} {text}" for text in [*tables.broken, *lost_tables][:EVIDENCE_MAX]]
    violations += [f"{BOUNDS_LAW} {text}" for text in bounds.broken[:EVIDENCE_MAX]]
    violations += [f"false alarm: {text}" for text in alarms.untrue(injector.troubles)] if not violations else []
    return Outcome(
        seed=seed,
        digest=_digest(harness),
        trail=harness.world.trail,
        simulated_s=harness.world.now,
        real_s=time.process_time() - began,
        callbacks=harness.world.callbacks,
        violations=violations,
        facts=_facts(harness, users, injector) | {"waited at the end": forgotten.asked},
        applied=Applied.of(harness.observer.verdicts),
        trace=_trace(harness, violations) if violations else [],
        story=[str(each) for each in strikes] + harness.journal.about() if verbose else [],
    )


def _settle(harness: Harness, profile: RunProfile) -> list[str]:
    """Let time go by until all is settled; what is not when the time for it is over."""
    left: list[str] = []
    looks: list[Counts] = []

    def is_settled() -> bool:
        looks[:] = [Counts()]
        left[:] = unsettled(harness, looks[0])
        return not left

    harness.world.run_until(is_settled, profile.settle_s, every_s=2.0)
    harness.observer.verdicts.take(looks[-1])  # the last look is the verdict
    return left


def _chance(seed: int, what: str) -> random.Random:
    return random.Random(f"{seed}/{what}")


def _facts(harness: Harness, users: Users, injector: FaultInjector) -> dict[str, int]:
    view = harness.observer.view
    pods = list(harness.observer.pods.values())
    binds = sum(count for (verb, _, status), count in harness.kube.requests.items() if verb == "bind" and status == 201)
    return {
        "actions": users.done,
        "faults": injector.struck,
        "binds": binds,
        "pods at the end": len(pods),
        "of them bound": sum(bool(pod.node) for pod in pods),
        "epochs": view.epoch.epoch,
        "restarts": sum(replica.starts - 1 for replica in harness.host.replicas),
    }


def _digest(harness: Harness) -> str:
    """The world's running hash of the ledger, with all objects as they are now."""
    found = hashlib.blake2b(harness.world.digest.encode(), digest_size=16)
    for collection in harness.kube.store.state.collections.values():
        for key in sorted(collection.items):
            found.update(msgspec.json.encode(collection.items[key].data, order="deterministic"))
    return found.hexdigest()


def _trace(harness: Harness, violations: list[str]) -> list[str]:
    words = set(_NAMES.findall("\n".join(violations[:3])))
    lines = harness.journal.about(*sorted(words), "fault", "epoch") if words else harness.journal.about()
    return lines[-TRACE_LINES:]
