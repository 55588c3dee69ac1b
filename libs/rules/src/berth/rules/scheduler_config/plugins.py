"""The plugins that a configuration may name: kube-scheduler's, in its order, and Koordinator's."""

from __future__ import annotations

from typing import Final, NamedTuple

QUEUE_SORT: Final = "queueSort"
BIND: Final = "bind"
FILTER: Final = "filter"
SCORE: Final = "score"
POST_FILTER: Final = "postFilter"
PRE_ENQUEUE: Final = "preEnqueue"
PRE_FILTER: Final = "preFilter"
PRE_SCORE: Final = "preScore"
RESERVE: Final = "reserve"
PRE_BIND: Final = "preBind"
POINTS: Final = (
    PRE_ENQUEUE,
    QUEUE_SORT,
    PRE_FILTER,
    FILTER,
    POST_FILTER,
    PRE_SCORE,
    SCORE,
    RESERVE,
    "permit",
    PRE_BIND,
    BIND,
    "postBind",
)


class Plugin(NamedTuple):
    """A default plugin: the extension points that it implements, and its weight (0: the default says none)."""

    name: str
    points: frozenset[str]
    weight: int = 0


def _plugin(name: str, points: str, weight: int = 0) -> Plugin:
    return Plugin(name, frozenset(points.split()), weight)


DEFAULTS: Final = (
    _plugin("SchedulingGates", "preEnqueue"),
    _plugin("PrioritySort", "queueSort"),
    _plugin("NodeUnschedulable", "filter"),
    _plugin("NodeName", "filter"),
    _plugin("TaintToleration", "filter preScore score", 3),
    _plugin("NodeAffinity", "preFilter filter preScore score", 2),
    _plugin("NodePorts", "preFilter filter"),
    _plugin("NodeResourcesFit", "preFilter filter preScore score", 1),
    _plugin("VolumeRestrictions", "preFilter filter"),
    _plugin("NodeVolumeLimits", "preFilter filter"),
    _plugin("VolumeBinding", "preFilter filter reserve preBind preScore score"),
    _plugin("VolumeZone", "preFilter filter"),
    _plugin("PodTopologySpread", "preFilter filter preScore score", 2),
    _plugin("InterPodAffinity", "preFilter filter preScore score", 2),
    _plugin("DynamicResources", "preEnqueue preFilter filter postFilter reserve preBind"),
    _plugin("DefaultPreemption", "preEnqueue postFilter"),
    _plugin("NodeResourcesBalancedAllocation", "preScore score", 1),
    _plugin("ImageLocality", "score", 1),
    _plugin("DefaultBinder", "bind"),
)
"""kube-scheduler's default plugins, in its order."""

OPTIONAL: Final = (
    _plugin("NodeResourcesFitPlus", "preScore score"),
    _plugin("ScarceResourceAvoidance", "preScore score"),
    _plugin("LoadAwareScheduling", "preFilter filter preScore score reserve"),
    _plugin("FragmentationGradientDescent", "preScore score"),
)
"""Plugins that a profile may switch on; no default has them: Koordinator's, and a published policy to compare with."""

SCORING: Final = (
    _plugin("NodeNUMAResource", "preFilter filter preScore score reserve preBind"),
    _plugin("DeviceShare", "preFilter filter preScore score reserve preBind"),
)
"""Koordinator's plugins that rule nodes out for every pod, and that rate them where a profile says so."""

KNOWN: Final = {plugin.name: plugin for plugin in (*DEFAULTS, *OPTIONAL, *SCORING)}

TOGETHER: Final[dict[str, tuple[str, ...]]] = {
    "NodeAffinity": (PRE_FILTER, FILTER),
    "VolumeRestrictions": (PRE_FILTER, FILTER),
    "VolumeZone": (PRE_FILTER, FILTER),
    "VolumeBinding": (PRE_FILTER, FILTER, RESERVE, PRE_BIND),
}
"""Points at which a plugin does parts of one thing, which Berth does whole: it is on at all of them or at none."""

NEEDED: Final = ((PRE_FILTER, FILTER), (PRE_SCORE, SCORE), (PRE_ENQUEUE, POST_FILTER))
"""Where the first of them only prepares the second: a plugin that has both and is on at the second needs the first."""

WITHOUT_EFFECT: Final = frozenset({"DynamicResources"})
"""Pods for which it would do anything are refused by name, wherever it is on."""

SORTS_AS_BERTH: Final = "Coscheduling"
"""Koordinator's order of the queue, which is Berth's, instead of PrioritySort."""

ALWAYS_ON: Final = frozenset({"Coscheduling", "DeviceShare", "ElasticQuota", "NodeNUMAResource", "Reservation"})
"""Koordinator's plugins whose work Berth does for every pod: they may be named, and cannot be switched off but for
their score."""

BERTH: Final = "Berth"
"""The name under which `pluginConfig` says what is Berth's own."""
