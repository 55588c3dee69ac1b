"""Runs the controllers: one heap of keys that are due, no task and no clock but the store's.

Whoever drives this calls `run(now)` at the time that `next_due` names, as with the kubelets. A key that is waiting
already is not put off by further changes.
"""

from __future__ import annotations

import heapq
import random as random_module
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from berth.simcluster.controllers.claim_binding import ClaimBinding
from berth.simcluster.controllers.controller import Controller
from berth.simcluster.controllers.deployments import Deployments
from berth.simcluster.controllers.disruption_budgets import DisruptionBudgets
from berth.simcluster.controllers.ephemeral_claims import EphemeralClaims
from berth.simcluster.controllers.provisioning import Provisioning
from berth.simcluster.controllers.replica_sets import ReplicaSets
from berth.simcluster.controllers.volume_phases import VolumePhases
from berth.simcluster.store import Event, Store
from berth.simcluster.store.status import ApiError

_RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Delays in seconds of simulated time; `speed` divides them all.

    `provision_failures` is the share of attempts to make a volume that fail.
    """

    react_s: tuple[float, float] = (0.01, 0.1)
    provision_s: tuple[float, float] = (0.5, 3.0)
    provision_failures: float = 0.0
    speed: float = 1.0
    seed: int = 0

    def problem(self) -> str:
        """What is wrong; empty if nothing."""
        for name in ("react_s", "provision_s"):
            low, high = getattr(self, name)
            if not 0 <= low <= high <= 1e9:
                return f"{name}: must be two numbers between 0 and 1e9 in order"
        if not 0 <= self.provision_failures <= 1:
            return "provision_failures: must be between 0 and 1"
        return "" if 1e-6 <= self.speed <= 1e6 else "speed: must be between 1e-6 and 1e6"


def controllers_of(settings: ControllerSettings) -> tuple[Controller, ...]:
    """All controllers there are."""
    react_s = settings.react_s
    return (
        Deployments(react_s),
        ReplicaSets(react_s),
        DisruptionBudgets(react_s),
        EphemeralClaims(react_s),
        ClaimBinding(react_s),
        Provisioning(settings.provision_s, settings.provision_failures),
        VolumePhases(react_s),
    )


class Controllers:
    """The controllers of a cluster."""

    def __init__(
        self,
        store: Store,
        settings: ControllerSettings,
        *,
        random: random_module.Random | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` is called when a key is due before all others. `random`: drawn from for delays and failures."""
        self._store = store
        self._speed = settings.speed
        self._random = random or random_module.Random(settings.seed)
        self._wake = wake
        self._controllers: Sequence[Controller] = controllers_of(settings)
        self._heap: list[tuple[float, int, int, str]] = []  # due, order, controller, key
        self._due: dict[tuple[int, str], float] = {}
        self._order = 0
        store.listen(self._seen)
        for index, controller in enumerate(self._controllers):
            for key in controller.every(store.state):
                self._set(index, key, self._random.uniform(*controller.delay_s))

    def waiting(self) -> int:
        """How many keys are to be looked at."""
        return len(self._due)

    def next_due(self) -> float | None:
        """When `run` has something to do (unix seconds); None: not before something changes."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float, limit: int = 500) -> int:
        """Look at what is due, at most `limit` keys; returns how many."""
        done = 0
        while self._heap and self._heap[0][0] <= now and done < limit:
            due, _, index, key = heapq.heappop(self._heap)
            if self._due.get((index, key)) != due:
                continue
            del self._due[index, key]
            try:
                again_s = self._controllers[index].reconcile(self._store.state, key, self._random)
            except ApiError:
                again_s = _RETRY_S
            if again_s is not None:
                self._set(index, key, again_s)
            done += 1
        return done

    def _seen(self, event: Event) -> None:
        for index, controller in enumerate(self._controllers):
            for key in controller.keys(self._store.state, event):
                if (index, key) not in self._due:
                    self._set(index, key, self._random.uniform(*controller.delay_s))

    def _set(self, index: int, key: str, delay_s: float) -> None:
        due = self._store.state.clock() + delay_s / self._speed
        if self._due.get((index, key), due + 1) <= due:
            return
        self._due[index, key] = due
        self._order += 1
        first = not self._heap or due < self._heap[0][0]
        heapq.heappush(self._heap, (due, self._order, index, key))
        if first:
            self._wake()
