"""What files are to have, one round after the other: only groups of which a strategy says something new are put
together anew, with the pods that they are of. The rest is as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from berth.node_qos_enforcer.core.compose import Composed, compose
from berth.node_qos_enforcer.core.strategies.seam import Pod, Ref, Snapshot, Wanted

Parts = Sequence[tuple[Wanted, ...]]
"""What each strategy wants, in the order in which they count."""
NOTHING: Composed = Composed({})


class Change(NamedTuple):
    """What files are to have, what those that are no files (`done`), and of which files that is news; None: of all."""

    files: Composed
    done: Mapping[Ref, str]
    touched: frozenset[Ref] | None


class Composing:
    """One node's files."""

    def __init__(self, no_files: frozenset[str] = frozenset()) -> None:
        """Nothing is wanted. `no_files` are knobs of what is no file."""
        self._no_files = no_files
        self._parts: Parts = ()
        self._pods: tuple[Pod, ...] = ()
        self._groups: list[dict[str, list[Wanted]]] = []
        self._pod_of: dict[str, Pod] = {}
        self._refs: dict[str, list[Ref]] = {}
        self._files = NOTHING
        self._done: Mapping[Ref, str] = {}

    def compose(self, snapshot: Snapshot, parts: Parts) -> Change:
        """Put together one round: the same as `compose` of all that is wanted."""
        before, self._parts = self._parts, parts
        is_same_pods = snapshot.pods is self._pods
        if not is_same_pods or len(before) != len(parts) or self._files.problems:
            return self._all(snapshot, parts)
        changed = [at for at, part in enumerate(parts) if part is not before[at] and part != before[at]]
        groups: set[str] = set()
        for at in changed:
            groups |= {each.group for each in set(before[at]).symmetric_difference(parts[at])}
            self._groups[at] = _by_group(parts[at])
        if not groups:
            return Change(self._files, self._done, frozenset())
        return self._some(snapshot, groups)

    def _all(self, snapshot: Snapshot, parts: Parts) -> Change:
        self._pods = snapshot.pods
        self._pod_of = {
            group: pod
            for pod in snapshot.pods
            for group in (pod.group, *(each.group for each in pod.containers))
            if group
        }
        self._groups = [_by_group(part) for part in parts]
        composed = compose(snapshot, [each for part in parts for each in part])
        self._refs = {}
        for ref in (*composed.values, *composed.kept):
            self._refs.setdefault(ref.group, []).append(ref)
        self._done = {ref: value for ref, value in composed.values.items() if ref.knob in self._no_files}
        self._files = composed
        if self._done:
            values = {ref: value for ref, value in composed.values.items() if ref not in self._done}
            self._files = composed._replace(values=values)
        return Change(self._files, self._done, None)

    def _some(self, snapshot: Snapshot, groups: set[str]) -> Change:
        """A quota of a pod follows from those of its containers, so a pod is put together as a whole."""
        pods = {pod.uid: pod for group in groups if (pod := self._pod_of.get(group)) is not None}
        for pod in pods.values():
            groups.update(group for group in (pod.group, *(each.group for each in pod.containers)) if group)
        wanted = [each for of_group in self._groups for group in groups for each in of_group.get(group, ())]
        found = compose(snapshot._replace(pods=tuple(pods.values())), wanted)
        if found.problems:
            return self._all(snapshot, self._parts)
        old = {ref for group in groups for ref in self._refs.pop(group, ())}
        for ref in (*found.values, *found.kept):
            self._refs.setdefault(ref.group, []).append(ref)
        values, done, before = dict(self._files.values), dict(self._done), self._files
        for ref in old - found.values.keys():
            values.pop(ref, None)
            done.pop(ref, None)
        for ref, value in found.values.items():
            (done if ref.knob in self._no_files else values)[ref] = value
        self._files = Composed(values, (before.kept - old) | found.kept)
        if done != self._done:
            self._done = done
        now = old | found.values.keys() | found.kept
        is_news = (ref for ref in now if _value(before, ref) != _value(self._files, ref))
        return Change(self._files, self._done, frozenset(is_news))


def _by_group(part: tuple[Wanted, ...]) -> dict[str, list[Wanted]]:
    found: dict[str, list[Wanted]] = {}
    for each in part:
        found.setdefault(each.group, []).append(each)
    return found


def _value(composed: Composed, ref: Ref) -> str | bool | None:
    """A value, whether a file is kept, None: neither."""
    value = composed.values.get(ref)
    return value if value is not None else (True if ref in composed.kept else None)
