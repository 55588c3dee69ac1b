"""Evictions as a transition system: where it starts, what may happen next, and what must never be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.model.evictions import environment, writer
from tests.model.evictions.environment import BORN_MAX
from tests.model.evictions.evicting import STAYS
from tests.model.evictions.judging import FIRST_UIDS
from tests.model.evictions.knowledge import Knowledge
from tests.model.evictions.solver import Solver
from tests.model.evictions.state import ACTIVE, STANDBY, Batch, Pod, Pods, State, Step, Writer
from tests.model.evictions.world import FAULTS, World

ORDER = (
    "bind",
    "mark",
    "delete lands",
    "delete",
    "view reads",
    "writer crashes",
    "writer",
    "solver reads",
    "controller",
    "pod ends",
    "solver decides",
    "solver nominates",
)
"""A fair run takes what comes first here, and nothing that is not here."""
LAST = 50
NEVER = 99
STEPS_MAX = 500
PLENTY = 60


class Evictions:
    """The protocol in one world."""

    def __init__(self, world: World, know: Knowledge | None = None) -> None:
        self.world = world
        self.know = know or Knowledge(world)

    def initial(self) -> State:
        """Some are bound, others wait; everybody has read everything, writer 0 holds the Lease of epoch 1."""
        world = self.world
        pods = tuple(
            Pod(name * FIRST_UIDS + 1, 0, place, 0, (), (), (), 0, 1) if place >= 0 else None
            for name, place in enumerate(world.start)
        )
        ledger = (Batch(0, 1, (), 0),)
        known = self.know.fold(ledger)
        first = Writer(ACTIVE, known, frozenset(), frozenset(), 1, ())
        followers = world.solvers + world.writers
        return State(
            pods=pods,
            base=pods,
            log=(),
            gens=tuple(1 if pod else 0 for pod in pods),
            views=(0,) * followers,
            missed=((),) * followers,
            ledger=ledger,
            known=(known,) * world.solvers,
            writers=(first, *(first._replace(mode=STANDBY, epoch=0),) * (world.writers - 1)),
            net=frozenset(),
            lease=(0, 0, 1),
            bases=(0,),
            unfit=0,
            pdb=world.pdb,
            promised=frozenset(),
            paid=frozenset(),
            lost=False,
            made=0,
            budget=tuple(getattr(world, fault) for fault in FAULTS),
            bad="",
        )

    def steps(self, state: State) -> Iterator[Step]:
        """Everything that may happen next."""
        yield from environment.steps(self.know, state)
        for each in range(self.world.solvers):
            yield from Solver(self.know, state, each).steps()
        for each in range(self.world.writers):
            yield from writer.steps(self.know, state, each)

    def canonical(self, state: State) -> State:
        """What everybody has read is no history any more, and two solvers are alike."""
        read = min(min(missed, default=count) for count, missed in zip(state.views, state.missed, strict=True))
        if read:
            pods = list(state.base)
            for name, pod in state.log[:read]:
                pods[name] = pod
            state = state._replace(
                base=tuple(pods),
                log=state.log[read:],
                views=tuple(count - read for count in state.views),
                bases=tuple(max(basis - read, 0) for basis in state.bases),
                missed=tuple(tuple(at - read for at in missed) for missed in state.missed),
            )
        if self.world.solvers == 2:
            one, two = ((state.views[me], state.missed[me], state.known[me]) for me in (0, 1))
            if hash(one) > hash(two):
                state = state._replace(
                    views=(state.views[1], state.views[0], *state.views[2:]),
                    missed=(state.missed[1], state.missed[0], *state.missed[2:]),
                    known=state.known[::-1],
                )
        return state

    def broken(self, state: State) -> str:
        """What is wrong at this moment; empty when all is well."""
        used = 0
        for pod in state.pods:
            if pod:
                if used & pod.place:
                    return "two live pods on one slot"
                used |= pod.place
        return state.bad

    # --- what must come to pass --------------------------------------------------------------------------------------

    def stuck(self, state: State) -> str:
        """What never comes to pass from here, though nothing more goes wrong; empty when all is well."""
        world = replace(self.world, plans=PLENTY)
        calm = Evictions(world, self.know.calm(world))
        end = calm.run_on(state._replace(budget=tuple(9 if fault == "patience" else 0 for fault in FAULTS), bad=""))
        if end is None:
            return "it never comes to rest"
        return calm.broken(end) or calm.leftover(end)

    def run_on(self, state: State) -> State | None:
        """Fairly, until nothing more happens; None if that never comes."""
        for _ in range(STEPS_MAX):
            step = min(self.steps(state), key=_rank, default=None)
            if step is None or _rank(step) == NEVER:
                return state
            state = self.canonical(step.after)
        return None

    def leftover(self, state: State) -> str:
        """What nobody has done although it could be done."""
        pods, world = state.pods, self.world
        if any(born >= BORN_MAX for born in state.gens):
            return "pods are evicted again and again"
        if any(pod and pod.mark and not pod.ends for pod in pods):
            return "a mark is never taken back"
        gang = [name for name in world.gang if pods[name] and not pods[name].place]  # type: ignore[union-attr]
        for name in self.know.names:
            pod = pods[name]
            if not pod or pod.place or (name in world.gang and len(gang) < len(world.gang)):
                continue
            can = [each for each in self.know.places[name] if not each & state.unfit and self._opens(state, name, each)]
            if name not in world.gang:
                if can:
                    return "a pod waits although it could have a place"
                continue
            dear = sum(1 for each in can if world.polite and set(world.budgeted) & set(self.know.on(pods, each)))
            if len(can) - dear + min(dear, state.pdb) >= len(gang):
                return "a gang waits although it could have a place"
        return ""

    def _opens(self, state: State, name: int, place: int) -> bool:
        """This place is free, or could be emptied for the pod."""
        world, know = self.world, self.know
        pods: Pods = state.pods
        there = know.on(pods, place)
        if any(pods[each].ends or not know.may_evict(state, pods, name, each) for each in there):  # type: ignore[union-attr]
            return False
        if any(each in world.policed for each in there):
            return False
        if any(each in world.victim_gang for each in there):
            for each in world.victim_gang:
                member = pods[each]
                if member and member.place and not know.may_evict(state, pods, name, each):
                    return False
        used = sum(know.width[other] for other, pod in enumerate(pods) if pod and pod.place)
        if world.quota and used - sum(know.width[each] for each in there) + know.width[name] > world.quota:
            return any(
                pod and pod.place and other not in there and not pod.ends and know.may_evict(state, pods, name, other)
                for other, pod in enumerate(pods)
            )
        return True


def _rank(step: Step) -> int:
    if step.what == "writer gives up" and step.details[-1] == STAYS:
        return LAST
    for rank, what in enumerate(ORDER):
        if step.what.startswith(what):
            return rank
    return NEVER
