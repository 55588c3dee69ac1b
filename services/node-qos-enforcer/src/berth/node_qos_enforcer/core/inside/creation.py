"""What a container is created with: devices, variables, mounts, limits and what only its beginning can give, in one
answer to the runtime."""

from __future__ import annotations

from typing import Final

from berth.node_qos_enforcer.core.inside.beginning import AS_ASKED, Beginning
from berth.node_qos_enforcer.core.inside.cpus import Wanted
from berth.node_qos_enforcer.core.inside.seen import BEFORE, ContainerSeen, before_text
from berth.nri.core.adjusting import Adjustment, Device, Mount, Resources
from berth.vendors.vendor import Edits

PRELOAD: Final = "LD_PRELOAD"
FILE_MODE: Final = 0o666


def adjustment(
    container: ContainerSeen,
    edits: Edits,
    wanted: Wanted,
    begins: Beginning = AS_ASKED,
    *,
    read_only: frozenset[str] = frozenset(),
) -> Adjustment:
    """The answer. What the container has already under the same name gives way, but for libraries that it preloads
    itself, which stay behind ours.

    Args:
        container: as it was asked for.
        edits: what it gets of its pod's devices.
        wanted: its limits.
        begins: what only its beginning can give it.
        read_only: sources of mounts that are not to be written to.
    """
    env = dict(edits.env)
    own = container.env.get(PRELOAD, "")
    if PRELOAD in env and own and own != env[PRELOAD]:
        env[PRELOAD] = f"{env[PRELOAD]}:{own}"
    quota_us = None if wanted.quota_us == container.limits.quota_us else wanted.quota_us
    changes = any(each is not None for each in (wanted.cpus, quota_us, wanted.cpu_shares, wanted.memory_limit))
    return Adjustment(
        env=env,
        mounts=tuple(
            Mount(each.destination, each.source, options=("rbind", "ro" if each.source in read_only else "rw"))
            for each in edits.mounts
        ),
        devices=tuple(
            Device(
                each.path,
                each.major,
                each.minor,
                type="b" if each.is_block else "c",
                file_mode=FILE_MODE,
                uid=0,
                gid=0,
            )
            for each in edits.nodes
        ),
        annotations={BEFORE: before_text(container.limits)} if changes else {},
        resources=Resources(
            cpus=wanted.cpus,
            cpu_quota_us=quota_us,
            cpu_shares=wanted.cpu_shares,
            memory_limit=wanted.memory_limit,
            rdt_class=begins.cache_group,
        ),
        oom_score_adj=begins.oom_score_adj,
        replaced_env=tuple(name for name in env if name in container.env),
        replaced_mounts=tuple(each.destination for each in edits.mounts if each.destination in container.mounts),
        replaced_devices=tuple(each.path for each in edits.nodes if each.path in container.devices),
    )
