"""Nodes whose batch resources YARN and Kubernetes divide: both fill what they have; YARN's answers are late or lost.

What users do is that of nodes that lend; a NodeManager runs on each.
"""

from __future__ import annotations

import random
from typing import Final

from tests.simulation import lending
from tests.simulation.faults import Fault
from tests.simulation.planted.injectors import Saboteur
from tests.simulation.workload import NAMESPACE, Json, Size
from tests.simulation.yarn_cluster import SimYarn

from berth.contracts.names import ANNOTATION_YARN_NODE_ID, LABEL_COMPONENT
from berth.simcluster.generate.build import PodRequest, pod_manifest
from berth.yarn_operator.core.pods import NODE_MANAGER

SMALL: Final = PodRequest(100, 64)


def cluster(rng: random.Random, size: Size) -> list[Json]:
    """Nodes that lend, each with the pod of a NodeManager."""
    made = lending.cluster(rng, size)
    for number in range(size.nodes):
        pod = pod_manifest(
            f"manager-{number}",
            SMALL,
            namespace=NAMESPACE,
            scheduler="default-scheduler",
            labels={LABEL_COMPONENT: NODE_MANAGER},
            annotations={ANNOTATION_YARN_NODE_ID: f"node-{number}:8041"},
        )
        pod["spec"]["nodeName"] = f"node-{number}"
        made.append(pod)
    return made


def yarn_away(rng: random.Random, at_s: float) -> list[Fault]:
    """No ResourceManager answers, and the other one of the pair takes over."""
    return [Fault(at_s, "yarn away", for_s=rng.choice((0.5, 4.0, 10.0)))]


def yarn_unheard(rng: random.Random, at_s: float) -> list[Fault]:
    """Requests and answers are late, or do not come."""
    return [Fault(at_s, "yarn unheard", amount=rng.choice((0.0, 1.0, 12.0)), for_s=rng.uniform(2.0, 8.0))]


def yarn_anew(rng: random.Random, at_s: float) -> list[Fault]:
    """A NodeManager registers anew."""
    return [Fault(at_s, "yarn anew")]


class YarnSaboteur(Saboteur):
    """An injector that reaches YARN."""

    @property
    def _yarn(self) -> SimYarn:
        yarn = self._harness.yarn
        assert yarn is not None
        return yarn

    def calm(self) -> None:
        """See `FaultInjector.calm`."""
        super().calm()
        self._yarn.calm()

    def _yarn_away(self, fault: Fault) -> None:
        self._yarn.go_away(fault.for_s)

    def _yarn_anew(self, fault: Fault) -> None:
        self._yarn.begin_anew(self._rng.choice(sorted(self._yarn.managers)))

    def _yarn_unheard(self, fault: Fault) -> None:
        yarn = self._yarn
        yarn.slow_s = fault.amount
        yarn.lost, yarn.lost_after = self._rng.choice(((0.0, 0.0), (0.3, 0.0), (0.0, 0.5), (0.2, 0.2)))
        self._later(fault.for_s, self._heard)

    def _heard(self) -> None:
        self._yarn.slow_s = self._yarn.lost = self._yarn.lost_after = 0.0
