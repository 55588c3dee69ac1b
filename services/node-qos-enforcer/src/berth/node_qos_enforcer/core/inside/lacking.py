"""What a container lacks that began without the plugin. CPUs and quota can be put right later; this cannot."""

from __future__ import annotations

from berth.contracts.base import Problem
from berth.node_qos_enforcer.core.inside.creation import PRELOAD
from berth.node_qos_enforcer.core.inside.seen import ContainerSeen, PodSeen
from berth.vendors.vendor import Edits

_NAMED_MAX = 5


def lacking(pod: PodSeen, container: ContainerSeen, edits: Edits) -> Problem | None:
    """A finding that names what is not there; values are not quoted, since a variable may be secret."""
    missing = [f"env {name}" for name, value in edits.env.items() if not _has(container, name, value)]
    missing += [
        f"device {each.path}" for each in edits.nodes if container.devices.get(each.path) != (each.major, each.minor)
    ]
    missing += [f"mount {each.destination}" for each in edits.mounts if each.destination not in container.mounts]
    if not missing:
        return None
    more = f" and {len(missing) - _NAMED_MAX} more" if len(missing) > _NAMED_MAX else ""
    return Problem(
        field=f"{pod.key}.containers[{container.name}]",
        message=f"began without what it was given: {', '.join(missing[:_NAMED_MAX])}{more}; start it anew",
    )


def _has(container: ContainerSeen, name: str, value: str) -> bool:
    has = container.env.get(name)
    return has == value or (name == PRELOAD and has is not None and value in has.split(":"))
