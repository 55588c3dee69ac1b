"""Steps before a bind (R17): two pods with a claim each, and two volumes, each reached from one node.

A step keeps a volume for a claim; the PersistentVolume controller binds what is kept, and gives back what is kept for a
claim that has another volume. Solver and writer see claims and volumes late. A decision may be withdrawn at any moment
for its node's sake, and a request may be on its way for as long; the writer remembers nothing that its view does not
show, so that it may start anew at any moment. That no two decisions keep
one volume is R1's: it is given here. Volumes that are made for a claim are left out: the claim names one node, guarded
in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.model.rules import Rules

PODS: Final = (0, 1)
"""Pod and claim have the same number, and so have a volume and the node that reaches it."""
VOLUMES: Final = (0, 1)
NONE: Final = -1
SOLVER: Final = 0
WRITER: Final = 1
WITHDRAWALS: Final = 1
LATE_ATTEMPTS: Final = 1
"""So many attempts of a pod are decided and judged on late views; for further ones all is read first."""
FAIR_STEPS: Final = 100
"""Within so many a pod has its node, if it ever gets one."""
FAULTS: Final = frozenset({"withdrawn for its node"})


class Volume(NamedTuple):
    """The claim that it is kept for, and its version."""

    claim: int = NONE
    version: int = 0


class Storage(NamedTuple):
    """Volumes, and by claim the volume that it is bound to."""

    volumes: tuple[Volume, Volume] = (Volume(), Volume())
    bound: tuple[int, int] = (NONE, NONE)


class Pod(NamedTuple):
    """Its attempt, its node, and the volume of its decision: the node is that volume's."""

    attempt: int = 0
    node: int = NONE
    decided: int = NONE


class Keep(NamedTuple):
    """A request on its way: this volume for this claim, if it is still of this version."""

    volume: int
    claim: int
    version: int


class Bind(NamedTuple):
    """A bind on its way, guarded by the attempt."""

    pod: int
    attempt: int
    node: int


class Moment(NamedTuple):
    """What is so, what solver and writer have seen of it, and whose steps the writer takes for done since it asked."""

    storage: Storage = Storage()
    pods: tuple[Pod, Pod] = (Pod(), Pod())
    seen: tuple[Storage, Storage] = (Storage(), Storage())
    network: frozenset[Keep | Bind] = frozenset()
    asked: frozenset[tuple[int, int]] = frozenset()
    withdrawals: int = WITHDRAWALS
    bad: str = ""


class VolumeStep(NamedTuple):
    """Something that may happen next."""

    what: str
    details: tuple[object, ...]
    after: Moment


class VolumeSteps:
    """The transition system. Rules: R17 (`step_version`, `steps_seen`, `steps_stay`); R1, R5 and R6 are in force."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def initial(self) -> Moment:
        """Two pods wait, both volumes are free."""
        return Moment()

    def canonical(self, moment: Moment) -> Moment:
        """Nothing is alike."""
        return moment

    def broken(self, moment: Moment) -> str:
        """What a request has broken."""
        return moment.bad

    def stuck(self, moment: Moment) -> str:
        """A pod waits for ever, or a volume is kept in vain, though everybody goes on and nothing more goes wrong."""
        for _ in range(FAIR_STEPS):
            moment = next((step.after for step in self.steps(moment) if step.what not in FAULTS), moment)
            if moment.bad:
                return moment.bad
        if any(pod.node == NONE for pod in moment.pods):
            return "a pod starves"
        volumes, bound = moment.storage
        is_kept = any(each.claim != NONE and bound[each.claim] != at for at, each in enumerate(volumes))
        return "a volume is kept for a claim that has another" if is_kept else ""

    def steps(self, now: Moment) -> Iterator[VolumeStep]:
        """Everything that may happen next; what leads to rest comes first."""
        for reader, name in ((SOLVER, "solver"), (WRITER, "writer")):
            if now.seen[reader] != now.storage:
                yield VolumeStep(f"{name} reads STATE", (), now._replace(seen=_set(now.seen, reader, now.storage)))
        for request in sorted(now.network):
            left = now._replace(network=now.network - {request})
            if isinstance(request, Keep):
                yield VolumeStep("a request for a volume lands", tuple(request), self._keep(left, request))
            else:
                yield VolumeStep("a bind lands", tuple(request), _bind(left, request))
        yield from _controller(now)
        for pod in PODS:
            if now.pods[pod].node != NONE:
                continue
            is_late = now.pods[pod].attempt >= LATE_ATTEMPTS and now.seen != (now.storage, now.storage)
            if now.pods[pod].decided != NONE:
                if not is_late:
                    yield from self._writer(now, pod)
                if now.withdrawals:
                    after = _withdrawn(now, pod)._replace(withdrawals=now.withdrawals - 1)
                    yield VolumeStep("withdrawn for its node", (pod,), after)
            elif not is_late:
                yield from self._solver(now, pod)

    def _solver(self, now: Moment, pod: int) -> Iterator[VolumeStep]:
        volumes, bound = now.seen[SOLVER]
        kept = [at for at in VOLUMES if volumes[at].claim == pod]
        others = {each.decided for each in now.pods}
        choices = [at for at in VOLUMES if volumes[at].claim == NONE and at not in others and at not in bound]
        if self._rules.steps_stay and bound[pod] != NONE:
            choices = [bound[pod]]
        elif self._rules.steps_stay and kept:
            choices = kept[:1]
        for volume in choices:
            pods = _set(now.pods, pod, now.pods[pod]._replace(decided=volume))
            yield VolumeStep("decided", (pod, volume), now._replace(pods=pods))

    def _writer(self, now: Moment, pod: int) -> Iterator[VolumeStep]:
        """What it does about a decision, by what it has seen."""
        attempt, _, volume = now.pods[pod]
        volumes, bound = now.seen[WRITER]
        is_asked = (pod, attempt) in now.asked
        if bound[pod] == volume or (is_asked and not self._rules.steps_seen):
            yield from _sent(now, "bind is sent", Bind(pod, attempt, volume))
        elif bound[pod] != NONE or volumes[volume].claim not in (NONE, pod):
            yield VolumeStep("withdrawn for its volume", (pod,), _withdrawn(now, pod))
        elif volumes[volume].claim == NONE:
            asked = now.asked if self._rules.steps_seen else now.asked | {(pod, attempt)}
            yield from _sent(now._replace(asked=asked), "step is asked for", Keep(volume, pod, volumes[volume].version))

    def _keep(self, now: Moment, request: Keep) -> Moment:
        volume = now.storage.volumes[request.volume]
        if self._rules.step_version and volume.version != request.version:
            return now
        bad = "" if volume.claim in (NONE, request.claim) else "a volume is given from one claim to another"
        return _kept(now, request.volume, request.claim)._replace(bad=bad)


def _sent(now: Moment, what: str, request: Keep | Bind) -> Iterator[VolumeStep]:
    if request not in now.network:
        yield VolumeStep(what, tuple(request), now._replace(network=now.network | {request}))


def _bind(now: Moment, request: Bind) -> Moment:
    pod, volume = now.pods[request.pod], now.storage.bound[request.pod]
    if pod.attempt != request.attempt or pod.node != NONE:
        return now
    bad = "" if volume == request.node else "a pod is bound where its volume is not"
    return now._replace(pods=_set(now.pods, request.pod, pod._replace(node=request.node)), bad=bad)


def _withdrawn(now: Moment, pod: int) -> Moment:
    return now._replace(pods=_set(now.pods, pod, Pod(now.pods[pod].attempt + 1)))


def _kept(now: Moment, volume: int, claim: int) -> Moment:
    volumes = now.storage.volumes
    made = _set(volumes, volume, Volume(claim, volumes[volume].version + 1))
    return now._replace(storage=now.storage._replace(volumes=made))


def _controller(now: Moment) -> Iterator[VolumeStep]:
    """The PersistentVolume controller."""
    volumes, bound = now.storage
    for at, (claim, _) in enumerate(volumes):
        if claim == NONE or bound[claim] == at:
            continue
        if bound[claim] == NONE:
            after = now._replace(storage=now.storage._replace(bound=_set(bound, claim, at)))
            yield VolumeStep("a claim is bound", (claim, at), after)
        else:
            yield VolumeStep("a volume is given back", (at,), _kept(now, at, NONE))


def _set(values: tuple, at: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:at], value, *values[at + 1 :])
