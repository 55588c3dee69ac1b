"""YAML that users write into ConfigMaps, read with a limit: plain data, without anchors and without a key twice."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Final

import yaml

from berth.contracts.base import Problem

TEXT_MAX: Final = 64 * 1024
"""Characters; what kube-scheduler writes out of a profile with all defaults has 5,000."""
NUMBER_LENGTH_MAX: Final = 40

_INTEGER: Final = "tag:yaml.org,2002:int"
_FLOAT: Final = "tag:yaml.org,2002:float"
_NOT_RESOLVED: Final = (_INTEGER, _FLOAT, "tag:yaml.org,2002:timestamp")


class _Loader(yaml.SafeLoader):
    """Plain data only: no anchors, which a few bytes blow up with, and no key twice, of which one would be lost.

    Numbers are those of kube-scheduler's parser: 1:30 is a text, and so is a date.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.constructor.ConstructorError(problem="aliases are not accepted")
        node: yaml.Node | None = super().compose_node(parent, index)
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value = super().construct_scalar(node)
        # JSON writes a character beyond 16 bits as two escapes. One of them alone is no text, which is a ValueError.
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            return value.encode("utf-16", "surrogatepass").decode("utf-16")
        return value

    def construct_number(self, node: yaml.ScalarNode) -> Any:
        """A number of a length that is one, without the base of 60 of old YAML."""
        text = str(node.value)
        if len(text) > NUMBER_LENGTH_MAX or ":" in text:
            shown = text if len(text) <= NUMBER_LENGTH_MAX else f"{text[:NUMBER_LENGTH_MAX]}..."
            raise yaml.constructor.ConstructorError(problem=f"{shown} is no number", problem_mark=node.start_mark)
        return self.construct_yaml_int(node) if node.tag == _INTEGER else self.construct_yaml_float(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[str] = set()
        for named, _ in node.value:
            key = self.construct_object(named)
            if not isinstance(key, str) or key in keys:
                problem = f"key {key!r} " + ("is there twice" if isinstance(key, str) else "is no text")
                raise yaml.constructor.ConstructorError(problem=problem, problem_mark=named.start_mark)
            keys.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if each[0] not in _NOT_RESOLVED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _INTEGER, re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)\Z"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    _FLOAT,
    re.compile(
        r"[-+]?(?:(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
        r"|[0-9][0-9_]*[eE][-+]?[0-9]+|\.(?:inf|Inf|INF))\Z|\.(?:nan|NaN|NAN)\Z"
    ),
    list("-+0123456789."),
)
for _tag in (_INTEGER, _FLOAT):
    _Loader.add_constructor(_tag, _Loader.construct_number)


def read_yaml(text: str, field: str) -> dict[str, Any] | Problem:
    """The one object in a text, or what is wrong with it. `field` is where the text comes from."""
    if len(text) > TEXT_MAX:
        return Problem(field=field, message=f"has more than {TEXT_MAX} characters")
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        # What a tag says a text is, and it is not, PyYAML finds out in ways of its own.
        return Problem(field=field, message=f"is neither YAML nor JSON: {error}"[:500])
    except RecursionError:
        return Problem(field=field, message="is nested too deeply")
    if len(documents) != 1 or not isinstance(documents[0], dict):
        return Problem(field=field, message="must be one object")
    return documents[0]
