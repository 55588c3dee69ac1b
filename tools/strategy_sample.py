"""Write the sample of the ConfigMap of strategies, from the shapes that it is read by.

Usage: strategy_sample.py [--check]. The result is k8s/samples/slo-controller-config.yaml: every key with its defaults,
so that who applies it changes nothing, and every field that a key may have, in comments.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from msgspec import inspect

from berth.contracts.names import LABEL_CONFIG_MAP_TYPE, SLO_CONFIG_MAP_TYPE
from berth.contracts.slo import CONFIG_MAP
from berth.rules.node_strategies.config import (
    HOST_APPLICATION_KEY,
    KINDS,
    NODE_CONFIGS,
    OFFER_KIND,
    RATIO_KINDS,
    Kind,
)
from berth.rules.node_strategies.shapes import HostApplication

TARGET: Final = Path(__file__).parents[1] / "k8s/samples/slo-controller-config.yaml"
PURPOSES: Final = {
    "colocation-config": "what nodes lend of what others leave",
    "resource-threshold-config": "how much of a node may be in use before best-effort pods give way",
    "resource-qos-config": "what classes of pods have of a node: identities, memory, caches, disks, the network",
    "cpu-burst-config": "how far containers may go beyond their CPU limits for a while",
    "system-config": "what the kernel decides for a node as a whole",
    "host-application-config": "what runs on nodes outside of pods",
    "cpu-normalization-config": "what a CPU of a model is worth",
    "resource-amplification-config": "by what the resources of nodes are multiplied",
}
HEAD: Final = """\
# Strategies of nodes: every key with its defaults, as if there were none. Written by tools/strategy_sample.py from what
# slo-manager reads. Take what is to be otherwise; a field that is left out keeps its default, a key that cannot be used
# keeps what it said before.
#
# Each key is a JSON text. What holds everywhere stands in `clusterStrategy`, or in the key itself; of `nodeStrategies`
# (or `nodeConfigs`) the first whose selector matches a node goes over it:
#     {"name": "careful", "nodeSelector": {"matchLabels": {"pool": "db"}}, "enable": true}
# With the label below and the gate ConfigMapValidatingWebhook a mistake is refused when it is written.
"""
WIDTH: Final = 116
CLASS: Final = "CLASS"


def sample() -> str:
    """The file."""
    namespace, _, name = CONFIG_MAP.partition("/")
    lines = [
        HEAD + "apiVersion: v1\nkind: ConfigMap\nmetadata:",
        f"  name: {name}\n  namespace: {namespace}",
        f"  labels: {{{LABEL_CONFIG_MAP_TYPE}: {SLO_CONFIG_MAP_TYPE}}}\ndata:",
    ]
    for kind in (OFFER_KIND, *KINDS, *RATIO_KINDS):
        lines += _key(kind.key, _fields(kind.shape, kind.default), _document(kind))
    lines += _key(
        HOST_APPLICATION_KEY, _fields(HostApplication, {}, "applications[]."), {"applications": [], NODE_CONFIGS: []}
    )
    return "\n".join(lines) + "\n"


def _document(kind: Kind) -> dict[str, Any]:
    own = {kind.cluster: kind.default} if kind.cluster else kind.default
    return {**own, kind.nodes: []}


def _key(key: str, fields: Iterator[tuple[str, str]], document: dict[str, Any]) -> list[str]:
    lines = [f"  # {key}: {PURPOSES[key]}."]
    for name, told in fields:
        lines += textwrap.wrap(f"{name}: {told}", WIDTH, initial_indent="  #   ", subsequent_indent="  #       ")
    return [*lines, f"  {key}: |", textwrap.indent(json.dumps(document, indent=2), "    ")]


def _fields(shape: Any, defaults: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Every field of a shape by its path, and what it takes. Classes of pods, which have the same fields, once."""
    found = inspect.type_info(shape)
    if not isinstance(found, inspect.StructType):
        raise TypeError(f"{shape} is no struct")
    seen: dict[Any, list[str]] = {}
    for field in found.fields:
        inner = _struct(field.type)
        if inner is not None:
            seen.setdefault(inner.cls, []).append(field.encode_name)
            continue
        default = defaults.get(field.encode_name, None if field.default is msgspec.NODEFAULT else field.default)
        told = f"{_told(field.type)}, default {json.dumps(default)}" if default not in (None, "") else _told(field.type)
        yield above + field.encode_name, told
    for cls, names in seen.items():
        if len(names) > 1:
            yield above + CLASS, f"one of {', '.join(names)}"
        yield from _fields(cls, {}, f"{above}{CLASS if len(names) > 1 else names[0]}.")


def _struct(found: inspect.Type) -> inspect.StructType | None:
    types = found.types if isinstance(found, inspect.UnionType) else (found,)
    return next((each for each in types if isinstance(each, inspect.StructType)), None)


def _told(found: inspect.Type) -> str:
    """What a field takes, for people."""
    match found:
        case inspect.UnionType():
            return " or ".join(_told(each) for each in found.types if not isinstance(each, inspect.NoneType))
        case inspect.IntType():
            return _ranged("integer", found)
        case inspect.FloatType():
            return _ranged("number", found)
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType():
            return " or ".join(json.dumps(value) for value in found.values)
        case inspect.ListType():
            return f"list of {_told(found.item_type)}"
        case inspect.DictType():
            return f"object of {_told(found.value_type)}"
        case inspect.Metadata():
            return _told(found.type)
        case inspect.StrType():
            return "text"
    struct = _struct(found)
    return f"object of {', '.join(each.encode_name for each in struct.fields)}" if struct is not None else "anything"


def _ranged(what: str, found: inspect.IntType | inspect.FloatType) -> str:
    least = found.ge if found.ge is not None else found.gt
    text = what if least is None else f"{what} {'from' if found.ge is not None else 'above'} {least}"
    return text if found.le is None or found.le >= 2**62 else f"{text} to {found.le}"


def main() -> int:
    """Write, or check."""
    text = sample()
    yaml.safe_load(text)
    if "--check" in sys.argv[1:]:
        if not TARGET.exists() or TARGET.read_text() != text:
            print(f"{TARGET} is not what the shapes say: run tools/strategy_sample.py", file=sys.stderr)
            return 1
        return 0
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
