"""The part of CEL that our match conditions need: fields, texts, lists, `has`, `in`, `==`, `!=`, `!`, `&&`, `||`.

What lies beyond is an error, as a type error is to a real API server.
"""

from __future__ import annotations

import json
import re
from typing import Any

_TOKEN = re.compile(
    r"""\s*(?:(?P<op>&&|\|\||==|!=|[()\[\],.!])|(?P<text>"(?:[^"\\]|\\.)*"|'[^'\\]*')|(?P<name>[A-Za-z_]\w*))"""
)


class ConditionError(Exception):
    """The expression cannot be read, or not be answered for this request."""


def holds(expression: str, variables: dict[str, Any]) -> bool:
    """Whether the condition holds. Raises ConditionError."""
    reader = _Reader(_tokens(expression), variables)
    value = reader.either()
    if reader.left:
        raise ConditionError(f"{reader.left[0]!r} is not expected")
    return _boolean(value)


def _tokens(expression: str) -> list[str]:
    found, position = [], 0
    text = expression.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConditionError(f"cannot be read from {text[position : position + 20]!r} on")
        found.append(match[match.lastgroup or 0])
        position = match.end()
    return found


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConditionError(f"{value!r} is no boolean")
    return value


class _Reader:
    """Reads and answers in one go; both sides of an operator are read, one may decide alone."""

    def __init__(self, tokens: list[str], variables: dict[str, Any]) -> None:
        self.left = tokens
        self._variables = variables

    def either(self) -> Any:
        return self._chain("||", self._both, decides=True)

    def _both(self) -> Any:
        return self._chain("&&", self._comparison, decides=False)

    def _chain(self, operator: str, part: Any, *, decides: bool) -> Any:
        """What one side decides holds whatever the other one is, or fails of."""
        values = [self._tried(part)]
        while self._takes(operator):
            values.append(self._tried(part))
        if len(values) == 1:
            return self._settled(values[0])
        if any(value is decides for value in values):
            return decides
        for value in values:
            _boolean(self._settled(value))
        return not decides

    def _tried(self, part: Any) -> Any:
        try:
            return part()
        except _AbsentError as error:
            return error

    def _settled(self, value: Any) -> Any:
        if isinstance(value, _AbsentError):
            raise value
        return value

    def _comparison(self) -> Any:
        first = self._tried(self._single)
        for operator in ("in", "==", "!="):
            if self._takes(operator):
                second = self._single()
                first = self._settled(first)
                if operator == "in":
                    if not isinstance(second, (list, dict)):
                        raise ConditionError(f"{second!r} holds nothing")
                    return first in second
                return (first == second) is (operator == "==")
        return self._settled(first)

    def _single(self) -> Any:
        if self._takes("!"):
            return not _boolean(self._single())
        if self._takes("("):
            value = self._tried(self.either)
            self._expect(")")
            return self._settled(value)
        if self._takes("["):
            return self._list()
        token = self._next()
        if token[0] in "\"'":
            return json.loads(token) if token[0] == '"' else token[1:-1]
        if token in ("true", "false"):
            return token == "true"
        if token == "has" and self._takes("("):
            try:
                self._path(self._next())
            except _AbsentError:
                found = False
            else:
                found = True
            self._expect(")")
            return found
        return self._path(token)

    def _list(self) -> list[Any]:
        values: list[Any] = []
        while not self._takes("]"):
            values.append(self._single())
            if not self._takes(","):
                self._expect("]")
                break
        return values

    def _path(self, name: str) -> Any:
        if name not in self._variables:
            raise ConditionError(f"{name!r} is not known")
        value, is_absent = self._variables[name], False
        while self._takes("."):
            field = self._next()
            is_absent = is_absent or not isinstance(value, dict) or field not in value
            value = None if is_absent else value[field]
        if is_absent:
            raise _AbsentError("no such key")
        return value

    def _takes(self, token: str) -> bool:
        if self.left and self.left[0] == token:
            del self.left[0]
            return True
        return False

    def _expect(self, token: str) -> None:
        if not self._takes(token):
            raise ConditionError(f"{token!r} is missing")

    def _next(self) -> str:
        if not self.left:
            raise ConditionError("it ends too early")
        return self.left.pop(0)


class _AbsentError(ConditionError):
    """A field that is not there, which decides nothing where the other side of an operator does."""
