"""The KubeSchedulerConfiguration of a file: read at the start and looked at again while the solver runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from berth.placement_solver.cluster_view import ClusterView
from berth.placement_solver.settings import Settings
from berth.rules.bounded_yaml import TEXT_MAX
from berth.runtime import Context

LOOK_EVERY_S = 2.0
"""A mounted ConfigMap is another one about a minute after it was changed; this adds little to that."""


def read_file(cluster: ClusterView, path: Path) -> bool:
    """Read the file once; whether another configuration holds from now on."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(TEXT_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        cluster.configuration.refuse(str(path), f"cannot be read: {error}"[:300])
        return False
    return cluster.configuration.read(text)


async def follow_file(ctx: Context[Settings], cluster: ClusterView, path: Path, changed: Callable[[], None]) -> None:
    """Read it again and again; `changed` is called when another configuration holds."""
    while True:
        await ctx.clock.sleep(LOOK_EVERY_S)
        if read_file(cluster, path):
            changed()
