"""Who is interested in a subject: a tree of tokens, with `*` for one token and a last `>` for one or more."""

from __future__ import annotations

from typing import Generic, TypeVar

Value = TypeVar("Value")

CACHED_MAX = 20_000


class _Node(Generic[Value]):
    __slots__ = ("children", "values")

    def __init__(self) -> None:
        self.children: dict[str, _Node[Value]] = {}
        self.values: dict[Value, None] = {}


class SubjectIndex(Generic[Value]):
    """Values by subject pattern. Matches come in the order of the tree, which does not depend on hashes."""

    def __init__(self) -> None:
        self._root: _Node[Value] = _Node()
        self._cache: dict[str, list[Value]] = {}

    def add(self, pattern: str, value: Value) -> None:
        """A value for every subject that matches."""
        node = self._root
        for token in pattern.split("."):
            node = node.children.setdefault(token, _Node())
        node.values[value] = None
        self._changed(pattern)

    def remove(self, pattern: str, value: Value) -> None:
        """Take the value back."""
        path = [self._root]
        for token in pattern.split("."):
            child = path[-1].children.get(token)
            if child is None:
                return
            path.append(child)
        path[-1].values.pop(value, None)
        tokens = pattern.split(".")
        while tokens and not path[-1].values and not path[-1].children:
            path.pop()
            del path[-1].children[tokens.pop()]
        self._changed(pattern)

    def match(self, subject: str) -> list[Value]:
        """All values whose pattern matches this subject, which has no wildcards."""
        found = self._cache.get(subject)
        if found is None:
            found = []
            _collect(self._root, subject.split("."), 0, found)
            if len(self._cache) >= CACHED_MAX:
                self._cache.clear()
            self._cache[subject] = found
        return found

    def _changed(self, pattern: str) -> None:
        if "*" in pattern or ">" in pattern:
            self._cache.clear()
        else:
            self._cache.pop(pattern, None)  # nobody else is concerned: a server has a thousand inboxes come and go


def _collect(node: _Node[Value], tokens: list[str], at: int, found: list[Value]) -> None:
    for number in range(at, len(tokens)):
        children = node.children
        rest = children.get(">")
        if rest is not None:
            found.extend(rest.values)
        child, any_child = children.get(tokens[number]), children.get("*")
        if any_child is None:
            if child is None:
                return
            node = child
        else:
            if child is not None:
                _collect(child, tokens, number + 1, found)
            node = any_child
    found.extend(node.values)


def overlap(one: str, other: str) -> bool:
    """Whether some subject matches both patterns."""
    left, right = one.split("."), other.split(".")
    for mine, theirs in zip(left, right, strict=False):
        if ">" in (mine, theirs):
            return True
        if mine != theirs and "*" not in (mine, theirs):
            return False
    return len(left) == len(right)


def fits(pattern: str, subject: str) -> bool:
    """Whether a subject (which may itself be a pattern) lies within a pattern."""
    wanted, tokens = pattern.split("."), subject.split(".")
    for number, token in enumerate(wanted):
        if token == ">":
            return len(tokens) > number
        if number >= len(tokens) or (token not in ("*", tokens[number])) or tokens[number] == ">":
            return False
    return len(wanted) == len(tokens)
