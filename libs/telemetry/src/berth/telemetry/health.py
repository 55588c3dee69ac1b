"""Whether this process is alive, and whether it can do its work.

Alive means that everything which promised to beat has done so lately: the event loop, and any loop a service adds.
Ready means that every named check passes now. A check is a cheap synchronous function that reads state at hand; it
never asks another service.
"""

import time
from collections.abc import Callable
from typing import Final, NamedTuple

TEXT_LENGTH_MAX: Final = 300
EVENT_LOOP: Final = "event loop"


class Verdict(NamedTuple):
    """The answer of one check."""

    ok: bool
    text: str


Check = Callable[[], tuple[bool, str]]


class Health:
    """The named checks and heartbeats of one process. Not thread-safe: it lives on the event loop."""

    def __init__(self, *, beat_timeout_s: float = 10.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._checks: dict[str, Check] = {}
        self._timeouts_s: dict[str, float] = {}
        self._beats: dict[str, float] = {}
        self.watch(EVENT_LOOP, beat_timeout_s)

    def add(self, name: str, check: Check) -> None:
        """Ready only while `check` says so. It returns (ok, what is the matter or how it stands)."""
        if name in self._checks:
            raise ValueError(f"health check {name!r} is there already")
        self._checks[name] = check

    def remove(self, name: str) -> None:
        """Forget a check or a heartbeat, when what it watched ended as planned."""
        self._checks.pop(name, None)
        self._timeouts_s.pop(name, None)
        self._beats.pop(name, None)

    def watch(self, name: str, timeout_s: float) -> None:
        """Alive only while `beat(name)` is called at least every `timeout_s`."""
        self._timeouts_s[name] = timeout_s
        self._beats[name] = self._monotonic()

    def beat(self, name: str = EVENT_LOOP) -> None:
        """Still running."""
        self._beats[name] = self._monotonic()

    def liveness(self) -> dict[str, Verdict]:
        """Every heartbeat, with its age."""
        now = self._monotonic()
        verdicts = {}
        for name, timeout_s in self._timeouts_s.items():
            age_s = now - self._beats[name]
            verdicts[name] = Verdict(age_s <= timeout_s, f"beat {age_s:.1f} s ago, at most {timeout_s:g} s allowed")
        return verdicts

    def readiness(self) -> dict[str, Verdict]:
        """Every check, run now. A check that raises has failed."""
        return {name: _run(check) for name, check in self._checks.items()}

    @property
    def alive(self) -> bool:
        """Whether every heartbeat is recent."""
        return all(verdict.ok for verdict in self.liveness().values())

    @property
    def ready(self) -> bool:
        """Whether every check passes."""
        return all(verdict.ok for verdict in self.readiness().values())


def _run(check: Check) -> Verdict:
    try:
        ok, text = check()
    except Exception as error:
        return Verdict(False, f"the check itself failed: {type(error).__name__}: {error}"[:TEXT_LENGTH_MAX])
    return Verdict(bool(ok), text[:TEXT_LENGTH_MAX])
