"""The rights of the bus's users, as an installation has them: who needs more in a run would not work in a cluster.

A service connects as the user of its name. The node agent's has the rights of its node; in a run everybody is in one
account, so it reads by the plain API of the streams, and not under the name of a domain.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

from tests.simulation.workload import WATCHED_NODE

from berth.invariants import Counts
from berth.node_authenticator.core.rights import AGENT
from berth.testing.simulation.nats.rights import Rights

GENERATOR = Path(__file__).parents[2] / "tools/nats_permissions.py"
LAW = "rights"


@cache
def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nats_permissions", GENERATOR)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _granted() -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    tool = _generator()
    found = {user: tool.rights_of(user) for user, part in tool.PARTS.items() if not part.on_nodes}
    found[AGENT] = tool.agent_rights(WATCHED_NODE)
    here = f"$JS.{tool.DOMAIN}.API."
    return {
        user: (tuple(each.replace(here, "$JS.API.") for each in rights.publish), tuple(rights.subscribe))
        for user, rights in found.items()
    }


def rights_of_users() -> dict[str, Rights]:
    """By user, for one run."""
    return {user: Rights(user, *granted) for user, granted in _granted().items()}


def beyond(rights: Mapping[str, Rights], counts: Counts) -> Iterable[str]:
    """What somebody tried and may not, as violations; counts what was judged."""
    for each in rights.values():
        counts.judged(LAW, each.judged)
        yield from (f"rights: {text}" for text in each.denied)
