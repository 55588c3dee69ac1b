"""`berth shadow`: another policy on a recorded stretch."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from berth.cli.commands.parameters import Folder


def shadow(
    *,
    profile: Path,
    folder: Folder,
    since: str = "",
    until: str = "",
    output: Annotated[Literal["table", "json"], Parameter(name=["--output", "-o"])] = "table",
) -> int:
    """Play a recorded stretch through by another profile: `berth shadow --profile FILE --from FOLDER --since 2h`.

    Who would have been placed, where and how soon, how full nodes would have been, and who would have had to leave,
    beside what was decided. Nothing is written. Exit code 1 when the stretch was not recorded, or not whole.

    Parameters
    ----------
    profile
        A KubeSchedulerConfiguration, as placement-solver reads it: plugins, weights, arguments.
    since
        `15m`, `2h`, `1d` ago, a time such as 2026-01-31T12:00:00Z, or unix seconds; else all since the last gap.
    until
        The same; else to the end.
    output
        `table` or `json`.
    """
    from berth.cli.recorded.segments import heads
    from berth.cli.recorded.times import point
    from berth.cli.running import run
    from berth.cli.shadow.comparing import compared
    from berth.cli.shadow.progress import Progress
    from berth.cli.shadow.report import lines, report

    async def work() -> int:
        import msgspec

        now_s = time.time()
        with Progress(sys.stderr) as progress:
            found = compared(
                heads(folder),
                profile,
                point(since, now_s) if since else None,
                point(until, now_s) if until else None,
                progress.tell,
            )
        if output == "json":
            print(msgspec.json.encode(report(found, str(profile))).decode())
        else:
            print("\n".join(lines(found, str(profile))))
        return 0

    return run(work())
