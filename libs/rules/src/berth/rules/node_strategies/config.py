"""The ConfigMap of strategies, read: for every section the cluster's strategy and those of nodes, each complete.

Most sections are parts of a node's spec; two are about its annotations (`ratios`), one about what it lends (`offers`).

A key that is absent or empty means the protocol's defaults. One that cannot be used as a whole (not JSON, a wrong type,
a value out of range) keeps what it said before, and the problem names the field; other keys go on. Strategies are laid
over each other as JSON (`overlay`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from berth.contracts.base import Problem
from berth.contracts.codec import decode, encode
from berth.contracts.errors import InvalidMessage
from berth.contracts.kube import LabelSelector
from berth.rules import amplification, cpu_normalization
from berth.rules.node_strategies.colocation import DEFAULT, Colocation
from berth.rules.node_strategies.overlay import overlay
from berth.rules.node_strategies.shapes import Burst, HostApplication, Qos, System, Threshold, below, check
from berth.rules.selectors import LabelTest, compile_selector

Json = dict[str, Any]

NODE_STRATEGIES_MAX: Final = 1_000
THRESHOLD: Final = "resourceUsedThresholdWithBE"
SYSTEM: Final = "systemStrategy"
QOS: Final = "resourceQOSStrategy"
HOST_APPLICATIONS: Final = "hostApplications"
NORMALIZATION: Final = "cpuNormalization"
AMPLIFICATION: Final = "resourceAmplification"
COLOCATION: Final = "colocation"


class Kind(NamedTuple):
    """A section: its key in the ConfigMap, the shape of its value and its default.

    `cluster` and `nodes` are the fields of the document that have the cluster's strategy and those of nodes; without
    `cluster` all other fields are the cluster's strategy. `is_lenient`: a node strategy that cannot be used is the
    cluster's, and the rest of the key counts.
    """

    section: str
    key: str
    shape: Any
    default: Json
    cluster: str = "clusterStrategy"
    nodes: str = "nodeStrategies"
    is_lenient: bool = False


KINDS: Final = (
    Kind(
        THRESHOLD,
        "resource-threshold-config",
        Threshold,
        {
            "enable": False,
            "cpuSuppressThresholdPercent": 65,
            "cpuSuppressPolicy": "cpuset",
            "memoryEvictThresholdPercent": 70,
            "cpuEvictPolicy": "evictByRealLimit",
        },
    ),
    Kind(QOS, "resource-qos-config", Qos, {}),
    Kind(
        "cpuBurstStrategy",
        "cpu-burst-config",
        Burst,
        {
            "policy": "none",
            "cpuBurstPercent": 1000,
            "cfsQuotaBurstPercent": 300,
            "cfsQuotaBurstPeriodSeconds": -1,
            "sharePoolThresholdPercent": 50,
        },
    ),
    Kind(SYSTEM, "system-config", System, {"totalNetworkBandwidth": "0"}),
)
"""The sections of a node's spec that are objects."""
HOST_APPLICATION_KEY: Final = "host-application-config"
NODE_CONFIGS: Final = "nodeConfigs"
RATIO_KINDS: Final = (
    Kind(
        NORMALIZATION,
        "cpu-normalization-config",
        cpu_normalization.Strategy,
        {"enable": False},
        cluster="",
        nodes=NODE_CONFIGS,
    ),
    Kind(
        AMPLIFICATION,
        "resource-amplification-config",
        amplification.Strategy,
        {"enable": False},
        cluster="",
        nodes=NODE_CONFIGS,
    ),
)
"""The sections about a node's annotations."""
OFFER_KIND: Final = Kind(
    COLOCATION, "colocation-config", Colocation, DEFAULT, cluster="", nodes=NODE_CONFIGS, is_lenient=True
)
"""The section about what nodes lend."""
_ALL: Final = (*KINDS, *RATIO_KINDS, OFFER_KIND)
SPEC: Final = (*(kind.section for kind in KINDS), HOST_APPLICATIONS)
"""The sections of a node's spec."""
KEY_OF: Final = {**{kind.section: kind.key for kind in _ALL}, HOST_APPLICATIONS: HOST_APPLICATION_KEY}
"""By section: its key in the ConfigMap."""
KEYS: Final = tuple(KEY_OF.values())


class NodeStrategy(NamedTuple):
    """What holds on the nodes that match; `value` is complete. `name` is for people."""

    name: str
    matches: LabelTest
    value: Any
    selector: LabelSelector | None = None
    """As it is written."""


class Section(NamedTuple):
    """What holds on a node that no strategy of its own matches, and the node strategies in the order that decides."""

    cluster: Any
    nodes: tuple[NodeStrategy, ...] = ()


class Config(NamedTuple):
    """Sections by their name. One that is missing could never be read; `given` are those whose key is there at all."""

    sections: Mapping[str, Section]
    problems: tuple[Problem, ...] = ()
    unusable: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()


DEFAULTS: Final = Config(
    {kind.section: Section(kind.default) for kind in _ALL} | {HOST_APPLICATIONS: Section([])},
)


class _NodePart(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    node_selector: LabelSelector | None = None


def read_config(data: Mapping[str, str], previous: Mapping[str, Section]) -> Config:
    """Read the texts of the ConfigMap.

    Args:
        data: its texts by key; other keys than `KEYS` are none of ours.
        previous: the sections as last read, kept where the text is of no use now.
    """
    sections: dict[str, Section] = {}
    problems: list[Problem] = []
    unusable: list[str] = []
    given: set[str] = set()
    readers = [(kind.section, kind.key, _strategies) for kind in _ALL]
    for section, key, read in (*readers, (HOST_APPLICATIONS, HOST_APPLICATION_KEY, _applications)):
        text = data.get(key, "")
        if not text.strip():
            sections[section] = DEFAULTS.sections[section]
            continue
        given.add(section)
        try:
            sections[section], notes = _readable(read, section, key, text)
            problems += notes
        except InvalidMessage as error:
            unusable.append(key)
            problems.append(Problem(field=below(f"data[{key}]", error.field), message=error.problem[:300]))
            if section in previous:
                sections[section] = previous[section]
    return Config(sections, tuple(problems), tuple(unusable), frozenset(given))


def _readable(
    read: Callable[[str, str, str], tuple[Section, list[Problem]]], section: str, key: str, text: str
) -> tuple[Section, list[Problem]]:
    """What `read` makes of a text; one that is nested beyond what can be compared and merged is unusable, too."""
    try:
        return read(section, key, text)
    except RecursionError as error:
        raise InvalidMessage("", "is nested too deeply") from error


def _strategies(section: str, key: str, text: str) -> tuple[Section, list[Problem]]:
    kind = next(each for each in _ALL if each.section == section)
    document = _document(text)
    if kind.cluster:
        own = _part(document, kind.cluster, dict)
    else:
        own = {field: value for field, value in document.items() if field != kind.nodes}
    cluster = overlay(kind.default, own)
    _checked(cluster, kind.shape, kind.cluster)
    nodes: list[NodeStrategy] = []
    notes: list[Problem] = []
    for position, raw in enumerate(_listed(document, kind.nodes)):
        place = f"{kind.nodes}[{position}]"
        name, matches, selector = _selected(raw, key, place, notes)
        own = {field: value for field, value in raw.items() if field not in ("name", "nodeSelector")}
        value = overlay(cluster, own)
        problem = check(value, kind.shape, place)
        if problem is not None and not kind.is_lenient:
            raise InvalidMessage(problem.field, problem.message)
        if problem is not None:
            notes.append(Problem(field=f"data[{key}].{problem.field}"[:300], message=problem.message[:300]))
            value = cluster
        nodes.append(NodeStrategy(name, matches, value, selector))
    return Section(cluster, tuple(nodes)), notes


def _applications(section: str, key: str, text: str) -> tuple[Section, list[Problem]]:
    """Read host applications: the list of a node replaces the cluster's, even by nothing."""
    document = _document(text)
    cluster = _part(document, "applications", list)
    _checked(cluster, list[HostApplication], "applications")
    nodes: list[NodeStrategy] = []
    notes: list[Problem] = []
    for position, raw in enumerate(_listed(document, NODE_CONFIGS)):
        place = f"{NODE_CONFIGS}[{position}]"
        name, matches, selector = _selected(raw, key, place, notes)
        value = _part(raw, "applications", list)
        _checked(value, list[HostApplication], f"{place}.applications")
        nodes.append(NodeStrategy(name, matches, value, selector))
    return Section(cluster, tuple(nodes)), notes


def _document(text: str) -> Json:
    return decode(text.encode(errors="replace"), Json)


def _part(document: Json, name: str, kind: type) -> Any:
    value = document.get(name)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise InvalidMessage(name, "has to be a JSON " + ("object" if kind is dict else "list"))
    return value


def _listed(document: Json, name: str) -> list[Json]:
    found: list[Json] = _part(document, name, list)
    if len(found) > NODE_STRATEGIES_MAX:
        raise InvalidMessage(name, f"has more than {NODE_STRATEGIES_MAX} entries")
    for position, each in enumerate(found):
        if not isinstance(each, dict):
            raise InvalidMessage(f"{name}[{position}]", "has to be a JSON object")
    return found


def _selected(raw: Json, key: str, place: str, notes: list[Problem]) -> tuple[str, LabelTest, LabelSelector | None]:
    """Read name and selector. One without a selector, or with a selector that means nothing, matches no node."""
    try:
        part = decode(encode({field: raw[field] for field in ("name", "nodeSelector") if field in raw}), _NodePart)
    except InvalidMessage as error:
        raise InvalidMessage(below(place, error.field), error.problem) from error
    selector = compile_selector(part.node_selector, f"data[{key}].{place}.nodeSelector")
    notes += selector.problems
    return part.name or place, selector.matches, part.node_selector


def _checked(value: Any, shape: Any, field: str) -> None:
    problem = check(value, shape, field)
    if problem is not None:
        raise InvalidMessage(problem.field, problem.message)
