"""Settings of the whole kernel that fit a node whose pods share it. What is no longer asked for is given back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from berth.contracts.names import MEMORY
from berth.node_qos_enforcer.core.laws.kernel import feature_words, settings_of
from berth.node_qos_enforcer.core.strategies.knobs import FEATURES, SCHED_FEATURES, SETTINGS
from berth.node_qos_enforcer.core.strategies.node_slo import SYSTEM
from berth.node_qos_enforcer.core.strategies.seam import Decided, Mount, Needs, Ref, Snapshot, Spec, Strategy, Wanted

_OLDER: Final = Ref("kernel/debug", SCHED_FEATURES)
_NEWER: Final = Ref("kernel/debug/sched", FEATURES)
_FIELDS: Final = (
    "minFreeKbytesFactor",
    "watermarkScaleFactor",
    "memcgReapBackGround",
    "schedGroupIdentityEnabled",
    "schedIdleSaverWmark",
    "pageCacheLimitEnabled",
    "schedFeatures",
)


def decide(snapshot: Snapshot, spec: Spec, memory: None) -> Decided:
    """Give the settings."""
    section = _section(spec)
    if not snapshot.node.capacity.get(MEMORY):
        return Decided(skipped="the memory of the node is not known yet")
    wanted = [
        Wanted(path.partition("/")[2].rpartition("/")[0], SETTINGS[path.rpartition("/")[2]], text)
        for path, text in settings_of(section, snapshot.node.capacity[MEMORY]).items()
    ]
    features = section.get("schedFeatures")
    if isinstance(features, Mapping):
        where = _NEWER if _NEWER in snapshot.found else _OLDER
        wanted += [Wanted(*where[:2], word, name) for name, word in feature_words(features).items()]
    return Decided(tuple(wanted))


def _section(spec: Spec) -> Mapping[str, Any]:
    section = spec.get(SYSTEM)
    return section if isinstance(section, Mapping) else {}


def _reads(snapshot: Snapshot, spec: Spec) -> tuple[Ref, ...]:
    return (_NEWER,) if isinstance(_section(spec).get("schedFeatures"), Mapping) else ()


def _is_on(spec: Spec) -> bool:
    section = _section(spec)
    return any(section.get(field) is not None for field in _FIELDS)


KERNEL_SETTINGS: Final = Strategy(
    "kernel-settings",
    "enforce-kernel",
    decide,
    _is_on,
    needs=Needs(
        knobs=(*SETTINGS.values(), SCHED_FEATURES, FEATURES),
        files=("/proc/sys/vm/min_free_kbytes",),
        mounts=(Mount("/proc/sys", writes=True), Mount("/sys", writes=True)),
        privileged=True,
    ),
    reads=_reads,
    is_steady=True,
)
