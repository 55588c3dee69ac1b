"""What kind of a run a seed makes: its length, its cluster and users, its faults, and the settings of its services.

The ordinary profile draws from everything. A narrower one dwells on one kind of situation, so that what goes wrong
there comes up within a few seeds; everything else in it is drawn from the seed all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import patch

from tests.simulation import actions as users_actions
from tests.simulation import faults as fault_plan
from tests.simulation import volumes, workload
from tests.simulation.fault_injection import FaultInjector
from tests.simulation.harness import CONTROLLERS
from tests.simulation.node_agent import Machine

from berth.simcluster.controllers import ControllerSettings
from berth.testing.simulation.services import ServiceSpec

Environ = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class RunProfile:
    """`end_s`: users and faults act until then. `whole_s`: only after it is it asked whether all is settled, which may
    take `settle_s`: a refusal that was lost to a conflict is told again after 300 s. `environ`: of services, by name.
    `constants`: by dotted name, for pauses that no setting has. `machine`: of the node with an agent.
    """

    end_s: float = 220.0
    whole_s: float = 300.0
    settle_s: float = 400.0
    size: workload.Size = field(default_factory=workload.Size)
    cluster: Callable[[random.Random, workload.Size], list[workload.Json]] = volumes.cluster
    actions: Callable[[random.Random, workload.Size], list[workload.Timed]] = users_actions.actions
    faults: Callable[[random.Random, float], list[fault_plan.Fault]] = fault_plan.schedule
    replicas: Callable[[random.Random], Mapping[str, int]] = fault_plan.replicas
    departures: Callable[[random.Random, Mapping[str, int], float], list[fault_plan.Fault]] = lambda *_: []
    injector: type[FaultInjector] = FaultInjector
    environ: Mapping[str, Environ] = field(default_factory=dict)
    constants: Mapping[str, object] = field(default_factory=dict)
    controllers: ControllerSettings = CONTROLLERS
    machine: type[Machine] = Machine

    def specs(self, specs: Sequence[ServiceSpec]) -> list[ServiceSpec]:
        """The services with these settings."""
        return [replace(spec, environ={**spec.environ, **self.environ.get(spec.name, {})}) for spec in specs]

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Set the constants for the length of a `with` block."""
        patches = [patch(name, value) for name, value in self.constants.items()]
        for each in patches:
            each.start()
        try:
            yield
        finally:
            for each in reversed(patches):
                each.stop()


ORDINARY = RunProfile(
    size=workload.Size(ranked=0.3),
    environ={"cluster-watcher": {"BERTH_LIST_PAGE": "20"}},
    departures=fault_plan.departures,
)
