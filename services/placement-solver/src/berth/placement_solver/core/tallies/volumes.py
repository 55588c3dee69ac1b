"""Which volumes and claims the pods of each node use, and what decisions have promised of volumes.

Claims name no volumes: what a pod uses is looked up by its name when its claim is charged, and remembered, so that the
same is given back. How many volumes count on a node follows from claims, volumes and attachments, which change by
themselves: a node that one of them concerns is counted again when it is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from berth.contracts.state import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StorageClass,
    VolumeAttachment,
    VolumeUse,
)
from berth.placement_solver.core.nodes import Nodes
from berth.placement_solver.core.seams import NOTHING, Charge, Hypothesis, Mask
from berth.placement_solver.core.volumes import StorageChange, Volumes
from berth.rules import volume_limits
from berth.rules.storage import CLAIM_SOURCE, ClaimName, Mounter, claims_used
from berth.rules.volume_binding import Promises
from berth.rules.volume_conflicts import inline_disks
from berth.transaction.claims import Claim, Name

Holder = tuple[Name, str, str]
"""Name and uid of a pod, and its node."""
Ints32 = npt.NDArray[np.int32]
NO_LIMIT: Final = np.int32(2**31 - 1)
BIND: Final = "bind-volume"
PROVISION: Final = "provision-volume"


class Held(NamedTuple):
    """What one claim was charged with: the pod, its inline disks, and what its decision has promised."""

    pod: Mounter
    disks: tuple[VolumeUse, ...]
    kept: Mapping[str, tuple[ClaimName, str]]
    selected: Mapping[ClaimName, str]


class VolumesTally:
    """Charged with every claim. `objects(name)` is the pod of a name as the book shows it."""

    counts_kept = True

    def __init__(self, nodes: Nodes, volumes: Volumes, objects: Callable[[Name], Pod | None]) -> None:
        self._nodes = nodes
        self._volumes = volumes
        self._objects = objects
        self._held: dict[Holder, tuple[Held, int]] = {}
        self._unseen: dict[Name, dict[Holder, Claim]] = {}
        self._on_node: dict[str, set[Holder]] = {}
        self._users: dict[ClaimName, set[Holder]] = {}
        self._disks: dict[tuple[str, str], set[Holder]] = {}
        self._kept: dict[str, dict[Holder, tuple[ClaimName, str]]] = {}
        self._selected: dict[ClaimName, dict[Holder, str]] = {}
        self.on_kept: Callable[[str], None] = _ignore
        """Called with the name of a volume that is kept from now on, or no longer."""
        self._counts = _Counts()
        volumes.watch(self._storage_changed)

    # --- charging ----------------------------------------------------------------------------------------------------

    def apply(self, charge: Charge, sign: int) -> None:
        """See `Tally`."""
        claim, seen = charge.claim, charge.pod
        holder = (claim.name, claim.uid, claim.node)
        known = self._held.get(holder)
        if known is not None:
            held, times = known
            if times + sign > 0:
                self._held[holder] = (held, times + sign)
            else:
                del self._held[holder]
                self._index(holder, held, -1)
            return
        if sign < 0:
            unseen = self._unseen.get(claim.name, {})
            if unseen.pop(holder, None) is not None and not unseen:
                del self._unseen[claim.name]
            return
        if seen is None:
            self._unseen.setdefault(claim.name, {})[holder] = claim
        elif seen.template.volumes:
            self._charge(holder, claim, seen)

    def see(self, name: Name, pod: Pod | None) -> None:
        """An object is shown: claims that were charged before it was known are charged with what it uses."""
        unseen = self._unseen.get(name)
        if pod is None or not unseen:
            return
        for holder in [each for each in unseen if each[1] == pod.uid]:
            claim = unseen.pop(holder)
            if pod.template.volumes:
                self._charge(holder, claim, pod)
        if not unseen:
            del self._unseen[name]

    def _charge(self, holder: Holder, claim: Claim, seen: Pod) -> None:
        pod = Mounter(claim.name[0], claim.name[1], claim.uid, seen.template.volumes)
        kept: dict[str, tuple[ClaimName, str]] = {}
        selected: dict[ClaimName, str] = {}
        for step in claim.before:
            name = (claim.name[0], step.claim)
            if step.action == BIND:
                kept[step.volume] = (name, step.claim_uid)
            elif step.action == PROVISION:
                selected[name] = claim.node
        held = Held(pod, inline_disks(pod.volumes), kept, selected)
        self._held[holder] = (held, 1)
        self._index(holder, held, 1)

    def _index(self, holder: Holder, held: Held, sign: int) -> None:
        node = holder[2]
        _put(self._on_node, node, holder, sign)
        for name in {(held.pod.namespace, used.name) for used in claims_used(held.pod)}:
            _put(self._users, name, holder, sign)
        for disk in {_disk_key(disk) for disk in held.disks}:
            _put(self._disks, disk, holder, sign)
        for volume, owner in held.kept.items():
            _put_value(self._kept, volume, holder, owner if sign > 0 else None)
            self.on_kept(volume)
        for claim, selected in held.selected.items():
            _put_value(self._selected, claim, holder, selected if sign > 0 else None)
        self._counts.dirty.add(node)

    # --- what is promised --------------------------------------------------------------------------------------------

    def is_kept(self, volume: str) -> bool:
        """Whether a decision keeps this volume for a claim."""
        return volume in self._kept

    def promises(self, hypothesis: Hypothesis = NOTHING) -> Promises:
        """What decisions have promised, as long as nobody is charged in between."""
        gone = {(each.name, each.uid) for each in hypothesis.gone}
        return Promises(_Newest(self._kept, gone), _Newest(self._selected, gone))

    def kept_for(self, claim: ClaimName, uid: str) -> Iterator[str]:
        """The volumes that decisions keep for a claim."""
        for holder in self._users.get(claim, ()):
            for volume, owner in self._held[holder][0].kept.items():
                if owner == (claim, uid):
                    yield volume

    # --- who uses what -----------------------------------------------------------------------------------------------

    def is_used(self, claim: ClaimName, hypothesis: Hypothesis = NOTHING) -> bool:
        """Whether a pod that has a node names this claim (the claim of an ephemeral volume is not named)."""
        for holder in self._users.get(claim, ()):
            if not _is_gone(holder, hypothesis) and _names(self._held[holder][0].pod, claim[1]):
                return True
        return any(pod.namespace == claim[0] and _names(pod, claim[1]) for pod in self._there(hypothesis))

    def near_disks(self, disk: VolumeUse) -> Iterator[tuple[str, VolumeUse]]:
        """Disks of pods that may be the same as this one, with the node of each."""
        key = _disk_key(disk)
        for holder in self._disks.get(key, ()):
            for other in self._held[holder][0].disks:
                if _disk_key(other) == key:
                    yield holder[2], other

    def disks_on(self, node: str, hypothesis: Hypothesis = NOTHING) -> Iterator[VolumeUse]:
        """The inline disks of the pods of a node."""
        for holder in self._on_node.get(node, ()):
            if not _is_gone(holder, hypothesis):
                yield from self._held[holder][0].disks
        for pod in self._there(hypothesis):
            yield from inline_disks(pod.volumes)

    # --- how many volumes --------------------------------------------------------------------------------------------

    def volumes_on(self, node: str, hypothesis: Hypothesis = NOTHING) -> dict[str, str]:
        """The volumes that count on a node, each with its driver, by what tells them apart."""
        storage = self._volumes.objects
        plugins = volume_limits.migrated(storage.csi_node(node))
        found = dict(
            volume_limits.counted(volume_limits.attached_volumes(storage.attachments_on(node), storage), plugins)
        )
        pods = [self._held[holder][0].pod for holder in self._on_node.get(node, ()) if not _is_gone(holder, hypothesis)]
        for pod in (*pods, *self._there(hypothesis)):
            found |= volume_limits.counted(volume_limits.held_volumes(pod, storage), plugins)
        return found

    def limited_drivers(self) -> frozenset[str]:
        """The drivers of which some node takes only so many volumes."""
        self._recount()
        return frozenset(self._counts.limits)

    def have_space(self, driver: str, more: int) -> Mask:
        """The nodes that take so many more volumes of a driver."""
        self._recount()
        rows = len(self._nodes)
        limits = self._counts.limits.get(driver)
        if limits is None:
            return np.ones(rows, np.bool_)
        return self._counts.used[driver][:rows].astype(np.int64) + more <= limits[:rows]

    def rows_with(self, identity: str) -> frozenset[int]:
        """The rows of nodes on which this volume counts already."""
        self._recount()
        return frozenset(self._counts.where.get(identity, ()))

    def _recount(self) -> None:
        counts = self._counts
        if counts.is_stale:
            counts.forget()
            counts.dirty.update(self._on_node, self._volumes.objects.csi_nodes)
            counts.is_stale = False
        counts.widen(len(self._nodes))
        self._look_at_rows()
        late = set()
        for node in counts.dirty:
            row = self._nodes.rows.get(node)
            if row is None:
                if node in self._on_node or node in self._volumes.objects.csi_nodes:
                    late.add(node)  # its driver is seen before the node itself
                continue
            counts.write(row, self.volumes_on(node), volume_limits.limits_of(self._volumes.objects.csi_node(node)))
        counts.dirty = late

    def _look_at_rows(self) -> None:
        """Rows of nodes that are gone are given to others."""
        counts, log, nodes = self._counts, self._nodes.reshaped, self._nodes
        changed = log.since(counts.rows_at)
        counts.rows_at = log.end
        for row in range(len(nodes)) if changed is None else changed:
            if nodes.rows.get(nodes.names[row]) == row:
                counts.dirty.add(nodes.names[row])
            else:
                counts.write(row, {}, {})

    def _storage_changed(self, change: StorageChange | None) -> None:
        if change is None:
            self._counts.is_stale = True
            return
        for each in (change.before, change.after):
            self._counts.dirty.update(self._nodes_of(each))
        if isinstance(change.before or change.after, StorageClass):
            self._counts.dirty.update(self._on_node)

    def _nodes_of(self, each: Any) -> Iterable[str]:
        """The nodes on which other volumes may count after a change of this object."""
        match each:
            case PersistentVolumeClaim():
                return self._nodes_using((each.namespace, each.name))
            case PersistentVolume():
                storage = self._volumes.objects
                users = (self._nodes_using((one.namespace, one.name)) for one in storage.claims_naming(each.name))
                return set().union(*users, (one.node for one in storage.attachments_of(each.name)))
            case CSINode():
                return (each.name,)
            case VolumeAttachment():
                return (each.node,)
        return ()

    def _nodes_using(self, claim: ClaimName) -> set[str]:
        return {holder[2] for holder in self._users.get(claim, ())}

    def _there(self, hypothesis: Hypothesis) -> Iterator[Mounter]:
        for claim in hypothesis.there:
            seen = self._objects(claim.name)
            if seen is not None and seen.uid == claim.uid and not claim.is_reservation:
                yield Mounter(claim.name[0], claim.name[1], claim.uid, seen.template.volumes)


class _Counts:
    """How many volumes of each driver that limits them are on each node. `dirty`: nodes to be counted again."""

    def __init__(self) -> None:
        self.dirty: set[str] = set()
        self.is_stale = False
        self.rows_at = 0
        self.limits: dict[str, Ints32] = {}
        self.used: dict[str, Ints32] = {}
        self.where: dict[str, set[int]] = {}
        self._there: dict[int, dict[str, str]] = {}
        self._limited: dict[int, frozenset[str]] = {}
        self._rows = 0

    def forget(self) -> None:
        """Count everything again."""
        rows = self._rows
        self.__init__()  # type: ignore[misc]
        self._rows = rows

    def widen(self, rows: int) -> None:
        """There are so many rows now."""
        if rows > self._rows:
            grow = max(rows, 2 * self._rows) - self._rows
            self._rows += grow
            for columns, fill in ((self.limits, NO_LIMIT), (self.used, 0)):
                for driver in columns:
                    columns[driver] = np.pad(columns[driver], (0, grow), constant_values=fill)

    def write(self, row: int, there: dict[str, str], limits: dict[str, int]) -> None:
        """What counts on one node, and how much it takes."""
        for driver in self._limited.pop(row, ()):
            self.limits[driver][row] = NO_LIMIT
        for identity, driver in self._there.pop(row, {}).items():
            self.used[driver][row] -= 1
            _put(self.where, identity, row, -1)
        for driver, count in limits.items():
            self._column(driver)
            self.limits[driver][row] = min(count, int(NO_LIMIT))
        for identity, driver in there.items():
            self._column(driver)
            self.used[driver][row] += 1
            _put(self.where, identity, row, 1)
        if limits:
            self._limited[row] = frozenset(limits)
        if there:
            self._there[row] = there

    def _column(self, driver: str) -> None:
        if driver not in self.limits:
            self.limits[driver] = np.full(self._rows, NO_LIMIT, np.int32)
            self.used[driver] = np.zeros(self._rows, np.int32)


class _Newest(Mapping[Any, Any]):
    """What was promised last of each thing, but by those who are gone."""

    def __init__(self, promised: Mapping[Any, Mapping[Holder, Any]], gone: set[tuple[Name, str]]) -> None:
        self._promised = promised
        self._gone = gone

    def __getitem__(self, key: Any) -> Any:
        values = [value for holder, value in self._promised[key].items() if holder[:2] not in self._gone]
        if not values:
            raise KeyError(key)
        return values[-1]

    def __iter__(self) -> Iterator[Any]:
        return (key for key in self._promised if key in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        return any(holder[:2] not in self._gone for holder in self._promised.get(key, ()))


def _disk_key(disk: VolumeUse) -> tuple[str, str]:
    """Disks that differ in this are different; those of one image of RBD may have no monitor in common."""
    return (disk.source, "/".join(disk.disk[:2] if disk.source == "rbd" else disk.disk[:1]))


def _names(pod: Mounter, claim: str) -> bool:
    return any(volume.source == CLAIM_SOURCE and volume.claim == claim for volume in pod.volumes)


def _is_gone(holder: Holder, hypothesis: Hypothesis) -> bool:
    return any((each.name, each.uid, each.node) == holder for each in hypothesis.gone)


def _put(index: dict[Any, set[Any]], key: Any, value: Any, sign: int) -> None:
    if sign > 0:
        index.setdefault(key, set()).add(value)
        return
    index[key].discard(value)
    if not index[key]:
        del index[key]


def _put_value(index: dict[Any, dict[Holder, Any]], key: Any, holder: Holder, value: Any) -> None:
    """Write, or with None take out, what a holder says of a key."""
    if value is not None:
        index.setdefault(key, {})[holder] = value
        return
    index[key].pop(holder, None)
    if not index[key]:
        del index[key]


def _ignore(_name: str) -> None:
    pass
