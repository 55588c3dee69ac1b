"""Whoever waits, waits for something: what would be placed by a solver that has just started was forgotten.

Once all is settled and nothing has changed for a while, somebody frees capacity (`last`). When that has had its
effect, and nothing has changed for a while again, every placement-solver is killed and comes back. It knows nothing of
refusals and pauses then and tries whatever waits. What it places although nothing but its own binds has happened since
would have fitted before, and nobody tried. Gangs and what belongs to them are left out: how they are placed is a
search with a limit, and may succeed at one time and not at another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from tests.simulation.harness import Harness
from tests.simulation.laws import Pardon
from tests.simulation.settled.held import SCHEDULING, objects

from berth.contracts import names
from berth.invariants.facts import ENDED
from berth.invariants.members import said_by_json
from berth.rules.gang_config import gang_name_of_pod
from berth.simcluster.store import Event
from berth.simcluster.store.collection import DELETED
from berth.simcluster.store.objects import Obj

SOLVER: Final = "placement-solver"
QUIET_S: Final = 15.0
"""Longer than any pause between two tries of what was refused, and than any wait for what is on its way."""
PATIENCE_S: Final = 240.0
"""How long to wait for such a while: those who wait may get their places one after the other, as pods end."""
START_S: Final = 20.0
"""How long solvers may take to come back: nothing is in their way."""
LOOK_S: Final = 12.0
"""For a new solver to hear of everything, and to have its binds carried out."""
EVERY_S: Final = 0.5


class Waiter(NamedTuple):
    """A pod or (without a namespace) a Reservation that waits."""

    text: str
    uid: str


class Forgotten:
    """Made before anything happens; `look` at the end."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._changed_s = 0.0
        self._first_s: float | None = None
        """The first change since the solvers started anew."""
        self._placed_s: dict[str, float] = {}
        self.asked = 0
        """How many were waiting when the solvers were started anew."""
        harness.kube.store.listen(self._see)

    def look(self, last_change: Callable[[], object] = lambda: None) -> list[str]:
        """Who was forgotten. Lets virtual time go by when anybody waits; `last_change` is made when all is quiet."""
        harness, counts = self._harness, self._harness.observer.verdicts
        counts.excused("L2", Pardon.GANG, len(self._waiting(of_gangs=True)))
        waiting = self._waiting()
        if not waiting:
            return []
        if not harness.world.run_until(self._is_quiet, PATIENCE_S, every_s=EVERY_S):
            counts.excused("L2", Pardon.NEVER_QUIET, len(waiting))
            return []
        last_change()
        if not harness.world.run_until(self._is_quiet, PATIENCE_S, every_s=EVERY_S):
            counts.excused("L2", Pardon.NEVER_QUIET, len(waiting))
            return []
        waiting = self._waiting()
        if not waiting:
            return []
        self.asked, begin_s, self._first_s = len(waiting), harness.world.now, None
        solvers = [each for each in harness.host.of(SOLVER) if each.wanted]
        for replica in solvers:
            replica.kill()
        if not harness.world.run_until(lambda: all(each.ready for each in solvers), START_S, every_s=EVERY_S):
            late = [each.instance for each in solvers if not each.ready]
            return [f"{', '.join(late)} is not ready {START_S:.0f} s after it was killed at {begin_s:.3f} s"]
        harness.world.run(harness.world.now + LOOK_S)
        until_s = harness.world.now if self._first_s is None else self._first_s
        found = []
        for waiter in waiting:
            placed_s = self._placed_s.get(waiter.uid)
            if placed_s is not None and placed_s >= until_s:
                counts.excused("L2", Pardon.CHANGED)
                continue
            counts.judged("L2")
            if placed_s is not None:
                text = f"{waiter.text} was placed at {placed_s:.3f} s, when the solvers had started anew"
                found.append(f"{text} at {begin_s:.3f} s")
        return found

    def _is_quiet(self) -> bool:
        last_s = max(self._changed_s, *self._placed_s.values()) if self._placed_s else self._changed_s
        return self._harness.world.now - last_s >= QUIET_S

    def _waiting(self, *, of_gangs: bool = False) -> list[Waiter]:
        found = []
        for key, obj in objects(self._harness, "", "pods").items():
            spec, meta = obj.data["spec"], obj.meta
            gang = gang_name_of_pod(meta.get("labels") or {}, meta.get("annotations") or {})
            if spec.get("schedulerName") == names.SCHEDULER_NAME and bool(gang) is of_gangs and not _is_over(obj):
                found.append(Waiter(f"pod {key}", obj.uid))
        for name, obj in objects(self._harness, SCHEDULING, "reservations").items():
            if bool(said_by_json(obj.data).gang) is of_gangs and not _is_over(obj):
                found.append(Waiter(f"reservation {name}", obj.uid))
        return found

    def _see(self, event: Event) -> None:
        """What may free capacity, or take it, is a change; that something waiting has got its place is none."""
        now_s, before = self._harness.world.now, event.prev
        plural = event.resource.plural
        if plural not in _MATTERS:
            return
        if before is None or event.kind == DELETED or before.uid != event.obj.uid:
            self._change(now_s)
            return
        if not _node_of(before) and _node_of(event.obj) and plural in ("pods", "reservations"):
            self._placed_s[event.obj.uid] = now_s
        elif _MATTERS[plural](before.data) != _MATTERS[plural](event.obj.data):
            self._change(now_s)

    def _change(self, now_s: float) -> None:
        self._changed_s = now_s
        if self._first_s is None:
            self._first_s = now_s


def _is_over(obj: Obj) -> bool:
    """It does not wait: it has its place, has ended, or is on its way out."""
    has_ended = (obj.data.get("status") or {}).get("phase") in ENDED
    return has_ended or bool(_node_of(obj)) or "deletionTimestamp" in obj.meta


def _node_of(obj: Obj) -> str:
    spec, status = obj.data.get("spec") or {}, obj.data.get("status") or {}
    return str(spec.get("nodeName") or status.get("nodeName") or "")


def _of_pod(data: Mapping[str, Any]) -> tuple[Any, ...]:
    meta, phase = data["metadata"], (data.get("status") or {}).get("phase")
    return data["spec"], meta.get("labels"), meta.get("deletionTimestamp"), phase if phase in ENDED else ""


def _of_reservation(data: Mapping[str, Any]) -> tuple[Any, ...]:
    return data["spec"], data["metadata"].get("deletionTimestamp"), (data.get("status") or {}).get("phase") in ENDED


def _of_node(data: Mapping[str, Any]) -> tuple[Any, ...]:
    meta, status = data["metadata"], data.get("status") or {}
    conditions = [(each["type"], each["status"]) for each in status.get("conditions") or ()]
    return data.get("spec"), meta.get("labels"), meta.get("annotations"), status.get("allocatable"), conditions


def _of_spec(data: Mapping[str, Any]) -> tuple[Any, ...]:
    return data.get("spec"), data["metadata"].get("labels")


def _of_device(data: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which cards kubelet has picked stands in an annotation: a node whose picks nobody knows gives none by number."""
    picked = (data["metadata"].get("annotations") or {}).get(names.ANNOTATION_KUBELET_CARDS)
    return (*_of_spec(data), picked)


def _of_claim(data: Mapping[str, Any]) -> tuple[Any, ...]:
    meta = data["metadata"]
    return data["spec"], meta.get("annotations"), meta.get("deletionTimestamp"), data.get("status")


_MATTERS: Final = {
    "pods": _of_pod,
    "reservations": _of_reservation,
    "nodes": _of_node,
    "devices": _of_device,
    "elasticquotas": _of_spec,
    "elasticquotaprofiles": _of_spec,
    "podgroups": _of_spec,
    "persistentvolumeclaims": _of_claim,
    "persistentvolumes": _of_claim,
}
"""What of an object decides on anybody's place, by plural."""
