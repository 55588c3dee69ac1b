"""One seed from its first moment to its verdict.

Users and faults act until `END_S`; then nothing goes wrong any more, and within `SETTLE_S` every pod has to be bound or
told why not, every decision has to have ended, and what the services believe has to be what is. The observer judges
every moment on the way.
"""

from __future__ import annotations

import hashlib
import re
import time
from contextlib import ExitStack
from typing import Any, Final

import msgspec
from tests.simulation import faults as fault_plan
from tests.simulation import workload
from tests.simulation.planted import PLANTED
from tests.simulation.settled import held_by_nodes, unsettled
from tests.simulation.stand import Stand, build
from tests.simulation.striking import Striker
from tests.simulation.users import Users

END_S: Final = 220.0
WHOLE_S: Final = 300.0
SETTLE_S: Final = 200.0
TRACE_LINES: Final = 60
_NAMES: Final = re.compile(r"(?:pod|gang|kept|node)-\d+(?:-(?:user-)?\d+)?")


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a seed. `digest`: of every ledger message and the cluster's state at the end."""

    seed: int
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
        return f"seed {self.seed}: {verdict}; {self.simulated_s:.0f} s at {speed:.0f}x; {told}; {self.digest}"


def run_seed(seed: int, *, planted: str = "", verbose: bool = False, size: workload.Size | None = None) -> Outcome:
    """Run it. Raises KeyError for an unknown bug to plant."""
    began = time.process_time()
    with ExitStack() as stack:
        if planted:
            stack.enter_context(PLANTED[planted].plant())
        return _run(stack, seed, began, verbose, size or workload.Size(end_s=END_S))


def run_task(task: tuple[int, str]) -> Outcome:
    """For a pool of processes: a seed and the bug to plant."""
    return run_seed(task[0], planted=task[1])


def _run(stack: ExitStack, seed: int, began: float, verbose: bool, size: workload.Size) -> Outcome:
    plan_rng = _chance(seed, "plan")
    manifests = workload.cluster(plan_rng, size)
    actions = workload.actions(plan_rng, size)
    strikes = fault_plan.schedule(_chance(seed, "faults"), END_S)
    replicas = fault_plan.replicas(_chance(seed, "replicas"))
    stand = build(seed, manifests, replicas, log_level="debug" if verbose else "info")
    stack.callback(stand.world.close)
    stack.enter_context(stand.journal)
    users, striker = Users(stand.world, stand.kube), Striker(stand)
    users.plan(actions)
    striker.plan(strikes)
    stand.world.later(END_S, None, striker.calm)
    stand.world.run(WHOLE_S)
    left: list[str] = []
    stand.world.run_until(lambda: not unsettled(stand), SETTLE_S, every_s=2.0)
    left = unsettled(stand)
    report = stand.observer.finish(quiet=not left, holds=held_by_nodes(stand.kube))
    violations = [f"{result.name} {result.title}: {text}" for result in report.broken for text in result.evidence]
    violations += [f"L1 settles: {text}" for text in left]
    violations += [f"failed: {each.process} at {each.at_s:.3f} s: {each.error!r}" for each in stand.host.failures]
    violations += [f"complaint: {text}" for text in stand.host.complaints()]
    return Outcome(
        seed=seed,
        digest=_digest(stand),
        trail=stand.world.trail,
        simulated_s=stand.world.now,
        real_s=time.process_time() - began,
        callbacks=stand.world.callbacks,
        violations=violations,
        facts=_facts(stand, users, striker),
        trace=_trace(stand, violations) if violations else [],
        story=[str(each) for each in strikes] + stand.journal.about() if verbose else [],
    )


def _chance(seed: int, what: str) -> Any:
    import random

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
