"""The whole protocol as a transition system: where it starts, what may happen next, and what must never be.

Two kinds of verdicts: `broken` of a moment, and `stuck` of a moment from which nothing more goes wrong: everything must
then be decided, carried out and given back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.model import environment, solver, writer
from tests.model.knowledge import Knowledge
from tests.model.state import (
    ACTIVE,
    EPOCH,
    NOWHERE,
    STANDBY,
    Change,
    Lease,
    Message,
    Pod,
    State,
    Step,
    View,
    Writer,
    budget_of,
    first_uid,
)
from tests.model.world import FAULTS, World

ORDER = (
    "bind lands",
    "bind is refused",
    "reservation is noted",
    "bind is lost",
    "view reads",
    "view lists",
    "writer crashes",
    "writer",
    "solver writes the last word",
    "stage refused",
    "solver reads LEDGER",
    "solver commits",
)
"""A fair run takes what comes first here; the rest comes last."""
COMMITS_MAX = 40
STEPS_MAX = 400
PLENTY = 10**6


class Protocol:
    """The transaction in one world. `commits`: also what a batch does counts, not only what is bound."""

    def __init__(self, world: World, *, commits: bool = True) -> None:
        self.world = world
        self.know = Knowledge(world)
        self._commits = commits

    def initial(self) -> State:
        """Nothing is decided, everybody has read everything, writer 0 holds the Lease of epoch 1."""
        world, count = self.world, self.world.pods
        log = tuple(Change(name, first_uid(name), 0, NOWHERE, 0) for name in range(count))
        pods = tuple(Pod(first_uid(n), 0, NOWHERE, 0, n + 1) if n < count else None for n in world.names)
        view = View(count, count, tuple(n + 1 if n < count else 0 for n in world.names))
        messages = (Message(EPOCH, 0, 1, pods_version=count),)
        known = self.know.fold(messages)
        writers = tuple(
            Writer(ACTIVE if w == 0 and world.rules.recorded else STANDBY, known) for w in range(world.writers)
        )
        return State(
            pods=pods,
            log=log,
            views=(view,) * (world.solvers + world.writers),
            ledger=messages,
            known=(known,) * world.solvers,
            stages=(None,) * world.solvers,
            writers=writers,
            network=frozenset(),
            failed=frozenset(),
            lease=Lease(0, 0, 1),
            budget=budget_of(world),
            next_id=1,
            bad="",
        )

    def steps(self, state: State) -> Iterator[Step]:
        """Everything that may happen next."""
        yield from environment.steps(self.know, state)
        for each in range(self.world.solvers):
            yield from solver.steps(self.know, state, each)
        for each in range(self.world.writers):
            yield from writer.steps(self.know, state, each)

    def canonical(self, state: State) -> State:
        """Two solvers are alike: of a state and its mirror image one is enough."""
        if self.world.solvers != 2:
            return state
        kept = state.kept or ((), ())
        one, two = (hash((state.views[i], state.known[i], state.stages[i], kept[i])) for i in (0, 1))
        if one <= two:
            return state
        views = (state.views[1], state.views[0], *state.views[2:])
        kept = (state.kept[1], state.kept[0], *state.kept[2:]) if state.kept else ()
        return state._replace(views=views, known=state.known[::-1], stages=state.stages[::-1], kept=kept)

    # --- what must never be ------------------------------------------------------------------------------------------

    def broken(self, state: State) -> str:
        """What is wrong at this moment; empty when all is well."""
        bound = [pod.slot for pod in state.pods if pod and pod.slot >= 0]
        if len(set(bound)) < len(bound):
            return "two live pods on one minor"
        if self.world.quota and len(bound) > self.world.quota:
            return "quota exceeded"
        if not self._commits and state.bad.startswith("a decision for a slot"):
            return ""
        if not self._commits and state.bad == "a pod decided twice":
            return ""
        return state.bad

    def stuck(self, state: State) -> str:
        """What never comes to pass from here, though nothing more goes wrong; empty when all is well."""
        calm = Protocol(replace(self.world, decisions=PLENTY, half_read=False, skipping=False), commits=False)
        calm.know.world = calm.world
        state = state._replace(budget=tuple(9 if fault == "aborts" else 0 for fault in FAULTS), bad="")
        end = calm.run_on(state)
        if end is None:
            return "it never comes to rest"
        return calm.broken(end) or self._waits(end) or calm.keeps(end)

    def run_on(self, state: State) -> State | None:
        """Fairly, until nothing more happens; None if that never comes."""
        commits = 0
        for _ in range(STEPS_MAX):
            step = min(self.steps(state), key=_rank, default=None)
            if step is None:
                return state
            commits += step.what == "solver commits"
            if commits > COMMITS_MAX:
                return None
            state = step.after
        return None

    def _waits(self, state: State) -> str:
        """A pod waits although there is capacity for it."""
        live = [pod for pod in state.pods if pod]
        bound = sum(pod.slot >= 0 for pod in live)
        capacity = len(self.world.nodes) - bound
        if self.world.quota:
            capacity = min(capacity, self.world.quota - bound)
        waiting = sum(pod.slot < 0 for pod in live)
        if self.world.is_gang:
            members = [state.pods[0], state.pods[1]]
            is_first = all(pod and pod.uid == first_uid(name) for name, pod in enumerate(members))
            begun = sum(1 for pod in members if pod and pod.slot >= 0)
            if is_first and begun == 1 and (capacity or not self.world.loses):
                return "a strict gang half placed"
            others = sum(1 for pod in live if pod.slot < 0 and pod.uid >= first_uid(2))
            waiting = others or int(is_first and not begun and capacity >= 2)
        return "a pod starves, or capacity is lost for ever" if waiting and capacity > 0 else ""

    def keeps(self, state: State) -> str:
        """When every pod is deleted, all capacity has to come back."""
        for name in self.world.names:
            if state.pods[name]:
                state = state.store(name, 0)
        end = self.run_on(state)
        if end is None:
            return "it never comes to rest"
        for each in range(self.world.solvers):
            if self.know.holders(end, end.views[each], end.known[each]):
                return "a claim is never given back"
        return ""


def _rank(step: Step) -> int:
    for rank, what in enumerate(ORDER):
        if step.what.startswith(what):
            return rank
    return len(ORDER)
