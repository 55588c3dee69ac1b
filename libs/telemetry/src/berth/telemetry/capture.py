"""Log lines for a program that runs many services at once: handed over as values instead of written.

Everything that a service would log comes here, its libraries' lines too. Who is speaking is for the taker to find out.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from berth.telemetry.bare_structlog import EventDict, WrappedLogger, structlog
from berth.telemetry.logs import Level, extra_of

_LEVELS: Final[dict[str, int]] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Line(NamedTuple):
    """One line, as it was logged. `fields` may hold exceptions and whatever else was given."""

    level: str
    logger: str
    message: str
    fields: dict[str, Any]


Take = Callable[[Line], object]


@contextlib.contextmanager
def captured_logs(take: Take, level: Level = "info") -> Iterator[None]:
    """Until the end of the block every line of this level or above goes to `take`, and nowhere else."""
    before, was_configured = structlog.get_config(), structlog.is_configured()
    structlog.configure(
        processors=[_hand_over(take)],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=lambda name="": _Silent(name),
        cache_logger_on_first_use=False,
    )
    root, handler = logging.getLogger("berth"), _Handler(take)
    kept = root.level, root.propagate
    root.addHandler(handler)
    root.setLevel(_LEVELS[level])
    root.propagate = False
    try:
        yield
    finally:
        root.removeHandler(handler)
        root.setLevel(kept[0])
        root.propagate = kept[1]
        if was_configured:
            structlog.configure(**before)
        else:
            structlog.reset_defaults()


class _Silent:
    """The end of a chain of processors that never gets there."""

    def __init__(self, name: str) -> None:
        self.name = name


def _hand_over(take: Take) -> Callable[[WrappedLogger, str, EventDict], EventDict]:
    def hand_over(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        message = str(event.pop("event", ""))
        take(Line(method, getattr(logger, "name", ""), message, dict(event)))
        raise structlog.DropEvent

    return hand_over


class _Handler(logging.Handler):
    def __init__(self, take: Take) -> None:
        super().__init__()
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        fields = extra_of(record)
        if record.exc_info:
            fields["exc_info"] = record.exc_info[1]
        self._take(Line(record.levelname.lower(), record.name, record.getMessage(), fields))
