"""An object that is being changed: nothing is copied but what changes, and what changed comes out as a JSON patch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]
Path = tuple[str | int, ...]

_NOTHING: Final[Mapping[str, Any]] = {}


def mapping_in(value: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path; empty where there is none, or something else."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else _NOTHING


def texts_in(value: Any, *path: str) -> Mapping[str, str]:
    """The same of texts by text, such as labels; what is no text is left out."""
    found = mapping_in(value, *path)
    if all(type(each) is str for each in found.values()):
        return found
    return {name: each for name, each in found.items() if isinstance(each, str)}


def list_in(value: Any, *path: str) -> Sequence[Any]:
    """The list at a path; empty where there is none."""
    found = mapping_in(value, *path[:-1]).get(path[-1])
    return found if isinstance(found, list) else ()


class Draft:
    """`before` is never changed, and shared with `now` as far as nothing changed."""

    def __init__(self, before: Json) -> None:
        self.before = before
        self.now = before
        self._own: dict[int, Any] = {}
        """Containers that this draft made, by id; kept, so that no id is used again."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels as they are now."""
        return texts_in(self.now, "metadata", "labels")

    @property
    def annotations(self) -> Mapping[str, str]:
        """The annotations as they are now."""
        return texts_in(self.now, "metadata", "annotations")

    def put(self, path: Path, value: Any) -> None:
        """Set a field; objects on the way are made. An equal value changes nothing."""
        *above, last = path
        holder = self.now
        for step in above:
            holder = _step(holder, step)
        if isinstance(holder, dict) and last in holder and holder[last] == value:
            return
        self._owned(tuple(above), last)[last] = value

    def drop(self, path: Path) -> None:
        """Remove a field, if it is there."""
        *above, last = path
        holder: Any = self.now
        for step in above:
            holder = _step(holder, step)
        if isinstance(holder, dict) and last in holder:
            del self._owned(tuple(above), last)[last]

    def replace(self, now: Json) -> None:
        """Another object in place of this one; it may share parts with it."""
        self.now = now

    def patch(self) -> tuple[Json, ...]:
        """From `before` to `now`."""
        operations: list[Json] = []
        _compare(self.before, self.now, "", operations)
        return tuple(operations)

    def _owned(self, path: Path, last: str | int) -> Any:
        """The container at a path, one of this draft's own. What cannot have the next step of the way is put aside."""
        self.now = holder = self._copied(self.now, last if not path else path[0])
        for step, following in zip(path, (*path[1:], last), strict=True):
            part = self._copied(_step(holder, step), following)
            holder[step] = part
            holder = part
        return holder

    def _copied(self, value: Any, step: str | int) -> Any:
        if id(value) in self._own:
            return value
        if isinstance(step, str):
            copy: Any = dict(value) if isinstance(value, dict) else {}
        else:
            copy = list(value)
        self._own[id(copy)] = copy
        return copy


def _step(holder: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return holder.get(step) if isinstance(holder, dict) else None
    return holder[step] if isinstance(holder, list) else None


def _compare(before: Any, now: Any, path: str, operations: list[Json]) -> None:
    if before is now or (type(before) is type(now) and before == now):
        return
    if isinstance(before, dict) and isinstance(now, dict):
        gone = [name for name in before if name not in now]
        operations += [{"op": "remove", "path": f"{path}/{_escaped(name)}"} for name in gone]
        for name, value in now.items():
            where = f"{path}/{_escaped(name)}"
            if name not in before:
                operations.append({"op": "add", "path": where, "value": value})
            else:
                _compare(before[name], value, where, operations)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for place, (old, new) in enumerate(zip(before, now, strict=True)):
            _compare(old, new, f"{path}/{place}", operations)
    else:
        operations.append({"op": "replace", "path": path, "value": now})


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
