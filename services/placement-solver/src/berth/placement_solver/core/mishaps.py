"""A plugin that raises: which one it was, and what is said of it to whoever was refused for that.

A plugin is a constraint, a score, an allocator, a gatherer, a displacer or a law of the verifier. What it does wrong
for one pod costs that pod its turn, and nobody else.
"""

from __future__ import annotations

import traceback
from typing import Final, NamedTuple

from berth.contracts.base import Reason

CODE: Final = "internal"
"""The code of the reason."""
CORE: Final = "berth.placement_solver.core."
CHARGING: Final = (f"{CORE}capacity", "apply")
"""Module and function that move the columns. Who raises there leaves them half charged."""
PLACES_MAX: Final = 8


class Mishap(NamedTuple):
    """What a plugin raised: the name of the plugin, the type of the error, what it says, and where it came from."""

    plugin: str
    error: str
    text: str
    places: tuple[str, ...]

    @property
    def message(self) -> str:
        """What is said of it."""
        return f"internal error in {self.plugin}: {self.error}"

    @property
    def reason(self) -> Reason:
        """The same as a reason against a pod."""
        return Reason(code=CODE, message=self.message)


def mishap_of(error: Exception, asked: str = "") -> Mishap:
    """What happened; the error itself once more where the columns may be half charged, which only a new view mends.

    `asked` is the name of who was asked, for errors that come from no plugin.
    """
    plugin, places = "", []
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if (module, frame.f_code.co_name) == CHARGING:
            raise error
        places.append(f"{module.rpartition('.')[2]}.{frame.f_code.co_name}:{line}")
        parts = module.removeprefix(CORE).split(".")
        if module.startswith(CORE) and len(parts) > 1:
            name = getattr(frame.f_locals.get("self"), "name", "")
            plugin = name if isinstance(name, str) and name else plugin or parts[-1]
    where = plugin or asked or (places[-1].partition(":")[0] if places else "solver")
    return Mishap(where, type(error).__name__, str(error), tuple(places[-PLACES_MAX:]))
