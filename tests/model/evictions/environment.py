"""Everybody else: users, controllers, followers of STATE, the API server's answers, every fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.model.evictions.judging import FIRST_UIDS, deletion
from tests.model.evictions.knowledge import Knowledge
from tests.model.evictions.state import STANDBY, Pod, State, Step, Writer
from tests.model.evictions.writer import decisions

BORN_MAX = 6
"""How often a controller makes a pod again."""


def steps(know: Knowledge, state: State) -> Iterator[Step]:
    """Everything that happens without Berth."""
    for name in know.names:
        yield from _pod(know, state, name)
    if state.left("breaks"):
        for at in range(len(know.world.nodes)):
            if not state.unfit & (1 << at):
                yield Step("slot breaks", (at,), state._replace(unfit=state.unfit | 1 << at).spend("breaks"))
    if state.left("shrinks") and state.pdb:
        yield Step("budget shrinks", (), state._replace(pdb=state.pdb - 1).spend("shrinks"))
    for me, count in enumerate(state.views):
        yield from _follow(know, state, me, count)
    for request in state.net:
        yield _land(know, state, request)
    if state.left("crash"):
        for me, writer in enumerate(state.writers):
            if writer.mode != STANDBY:
                now = know.fold(state.ledger)
                fresh = Writer(STANDBY, now, decisions(know, now), frozenset(), 0, ())
                writers = (*state.writers[:me], fresh, *state.writers[me + 1 :])
                yield Step("writer crashes", (me,), state._replace(writers=writers).spend("crash"))
    yield from _losses(know, state)


def _pod(know: Knowledge, state: State, name: int) -> Iterator[Step]:
    world, pod = know.world, state.pods[name]
    if pod is None:
        if state.left("create"):
            yield Step("user creates", (name,), _create(state, name).spend("create"))
        if world.reborn and 0 < state.gens[name] < BORN_MAX:
            yield Step("controller creates", (name,), _create(state, name))
        return
    if state.left("delete") and name in world.deletable and not pod.ends:
        after = state.change(name, ends=1) if pod.place else state.put(name, None)
        yield Step("user deletes", (name,), after.spend("delete"))
    if state.left("touch") and pod.place:
        yield Step("pod is updated", (name,), state.change(name).spend("touch"))
    if state.left("protect") and pod.place and not pod.guarded and not pod.ends:
        yield Step("user protects", (name,), state.change(name, guarded=1).spend("protect"))
    if pod.ends and name not in world.stuck:
        yield Step("pod ends", (name,), state.put(name, None))


def _create(state: State, name: int) -> State:
    born = state.gens[name]
    after = state.put(name, Pod(name * FIRST_UIDS + 1 + born, 0, 0, 0, (), (), (), 0, 1))
    return after._replace(gens=(*state.gens[:name], born + 1, *state.gens[name + 1 :]))


def _follow(know: Knowledge, state: State, me: int, count: int) -> Iterator[Step]:
    apart, missed = know.world.apart, state.missed[me]

    def missing(whole: State, left: tuple[int, ...]) -> State:
        return whole._replace(missed=(*state.missed[:me], left, *state.missed[me + 1 :]))

    if count < len(state.log):
        name = state.log[count][0]
        ahead = state.log[count + 1 :]
        on = state._replace(views=(*state.views[:me], count + 1, *state.views[me + 1 :]))
        left = () if count + 1 == len(state.log) and not apart else missed
        if name in apart or not missed or not apart:
            yield Step("view reads", (me, name), missing(on, left))
        if apart and name not in apart and any(other in apart for other, _ in ahead):
            yield Step("view reads the other kind first", (me, name), missing(on, (*missed, count)))
        if state.left("skips") and any(other == name for other, _ in ahead):
            yield Step("view misses", (me, name), missing(on, (*missed, count)).spend("skips"))
    if apart and missed:
        yield Step("view reads", (me, "later"), missing(state, missed[1:]))


def _losses(know: Knowledge, state: State) -> Iterator[Step]:
    if state.left("tail"):
        for count in range(1, len(state.ledger)):
            rest = state.ledger[:count]
            if know.world.vanish:
                over = {(family, key) for batch in state.ledger[count:] for family, key, _ in batch.writes}
                rest = tuple(
                    batch._replace(writes=tuple(each for each in batch.writes if each[:2] not in over))
                    for batch in rest
                )
            yield Step("LEDGER loses its tail", (count,), state._replace(ledger=rest, lost=True).spend("tail"))
    if state.left("full") and len(state.ledger) > 1:
        yield Step("LEDGER is lost", (), state._replace(ledger=(), lost=True).spend("full"))


# --- what the API server answers ------------------------------------------------------------------------------------


def _land(know: Knowledge, state: State, request: tuple[Any, ...]) -> Step:
    what, name, uid, version = request[:4]
    pod, after = state.pods[name], state._replace(net=state.net - {request})
    if not pod or uid not in (0, pod.uid) or version not in (0, pod.version):
        return Step(f"{what} is refused", (name,), after)
    if what == "bind":
        return _bind_lands(know, state, after, request)
    if what == "mark":
        if pod.ends or not pod.place:
            return Step("mark is refused", (name,), after)
        return Step("mark lands", (name, request[4]), after.change(name, mark=request[4]))
    return _delete_lands(know, state, after, request)


def _bind_lands(know: Knowledge, state: State, after: State, request: tuple[Any, ...]) -> Step:
    name, place, prio = request[1], request[4], know.world.prio
    pod = state.pods[name]
    assert pod
    if pod.place or pod.ends:
        return Step("bind is refused", (name,), after)
    for beneficiary, uid, promised, plan in state.promised:
        other = state.pods[beneficiary]
        is_waiting = other and other.uid == uid and not other.place and plan not in other.let_go
        is_its = is_waiting and promised & place and know.could_place(state, state.pods, beneficiary, promised)
        if beneficiary != name and is_its and prio[beneficiary] >= prio[name]:
            thief = "a thief is bound in the place that another's victims left"
            after = after._replace(bad=after.bad or thief)
    after = after._replace(promised=frozenset(each for each in after.promised if each[0] != name))
    return Step("bind lands", (name, place), after.change(name, place=place))


def _delete_lands(know: Knowledge, state: State, after: State, request: tuple[Any, ...]) -> Step:
    _, name, _, _, mark, members, _, places, _ = request
    pod, world = state.pods[name], know.world
    assert pod
    if pod.ends or not pod.place:
        return Step("delete changes nothing", (name,), after)
    if world.polite and name in world.budgeted:
        if not state.pdb:
            return Step("delete is refused by a budget", (name,), after)
        after = after._replace(pdb=state.pdb - 1)
    if name in world.policed:
        return Step("delete is refused by a policy", (name,), after)
    bad = deletion(know, state, request, pod)
    promises = frozenset((who, uid, place, mark[0]) for (who, uid), (_, place) in zip(members, places, strict=True))
    after = after.change(name, ends=1, mark=mark)
    return Step(
        "delete lands",
        (name,),
        after._replace(
            bad=after.bad or bad, promised=after.promised | promises, paid=after.paid | {(mark[1], mark[0])}
        ),
    )
