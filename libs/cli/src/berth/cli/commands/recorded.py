"""`berth audit`, `berth replay-decision` and `berth at`: what recorder has kept."""

from __future__ import annotations

import time

from berth.cli.commands.parameters import AsJson, Folder
from berth.cli.running import run


def audit(*, since: str, folder: Folder, json: AsJson = False) -> int:
    """Make every plan again that was committed since a time: `berth audit --since 1h --from FOLDER`.

    From what its solver had read, as recorder has kept it; compared byte for byte. Exit code 1 when one is different.

    Parameters
    ----------
    since
        `15m`, `2h`, `1d` ago, a time such as 2026-01-31T12:00:00Z, or unix seconds.
    """

    async def work() -> int:
        from berth.cli.recorded.replaying import audit as command
        from berth.cli.recorded.times import point

        return command(folder, point(since, time.time()), as_json=json)

    return run(work())


def replay_decision(about: str, /, *, folder: Folder, json: AsJson = False) -> int:
    """Make the plan of one decision again: `berth replay-decision PLAN --from FOLDER`.

    Exit code 0 when it comes out the same, byte for byte; 1 when it does not, or cannot be made again, with the reason.

    Parameters
    ----------
    about
        Id of a plan, or NAME or NAMESPACE/NAME of a pod: its newest decision.
    """

    async def work() -> int:
        from berth.cli.recorded.replaying import replay_decision as command

        return command(folder, about, as_json=json)

    return run(work())


def at(moment: str, /, *, folder: Folder, json: AsJson = False) -> int:
    """Show the cluster as it was: `berth at 2026-01-31T12:00:00Z --from FOLDER`. Use of nodes and quota, and the queue.

    As a solver saw it that was alone: what was decided counts, bound or not.

    Parameters
    ----------
    moment
        `15m`, `2h`, `1d` ago, a time such as 2026-01-31T12:00:00Z, or unix seconds.
    """

    async def work() -> int:
        from berth.cli.recorded.moment import at as command
        from berth.cli.recorded.times import point

        return command(folder, point(moment, time.time()), as_json=json)

    return run(work())
