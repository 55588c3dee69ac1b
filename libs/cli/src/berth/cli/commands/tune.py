"""`berth tune`: weights of the node cost that suit a site, found on its own arrivals."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from berth.cli.limits import NODES_MAX

Count = Annotated[int, Parameter(validator=Number(gte=20, lte=NODES_MAX))]


def tune(
    *,
    folder: Annotated[Path | None, Parameter(name="--from", env_var="BERTH_RECORD_FOLDER")] = None,
    trace: Path | None = None,
    pods: str = "default",
    profile: str = "",
    config: Path | None = None,
    seen: Annotated[float, Parameter(validator=Number(gte=0.2, lte=0.8))] = 0.7,
    search_nodes: Count = 100,
    judge_nodes: Count = 300,
    orders: Annotated[int, Parameter(validator=Number(gte=3, lte=100))] = 8,
    budget: Annotated[float, Parameter(validator=Number(gt=0, lte=86_400))] = 600.0,
    turns: Annotated[int | None, Parameter(validator=Number(gte=1, lte=1000))] = None,
    seed: Annotated[int, Parameter(validator=Number(gte=0, lte=2**31))] = 1,
    json: Annotated[bool, Parameter(name="--json", negative="", help="Print JSON.")] = False,
) -> int:
    """Find weights of the node cost for a site, by its own arrivals: `berth tune --from FOLDER`. Nothing is written.

    They are searched on the earlier arrivals, and accepted only when they are better on the later ones, both where a
    cluster fills up and where pods come and go. What is accepted is printed for the configuration of the profile. Exit
    code 0 whether there is something better or not.

    Parameters
    ----------
    folder
        Folder of recorder's segments, or a copy of it.
    trace
        Instead of it, a folder of CSV files as the openb trace has them: `openb_node_list_gpu_node.csv` and
        `openb_pod_list_PODS.csv`.
    pods
        Which list of pods of that folder.
    profile
        Scheduler name whose profile is tuned; the first one of the solver that was recorded, when not given.
    config
        File of the KubeSchedulerConfiguration that holds; what was recorded, when not given.
    seen
        Part of the arrivals, by time, that the search sees; the rest is to judge by.
    search_nodes
        Nodes to search on: of each shape its part.
    judge_nodes
        Nodes to judge on.
    orders
        Orders of arrivals to judge in.
    budget
        Seconds for the search; judging comes on top.
    turns
        Turns of the search, whatever time they take: with the same seed the same result.
    seed
        What is tried, and in which orders.
    """
    from berth.cli.running import run

    async def work() -> int:
        import msgspec

        from berth.cli.errors import EXIT_OK, CliError
        from berth.cli.tuning.from_records import from_records
        from berth.cli.tuning.from_trace import from_trace
        from berth.cli.tuning.report import as_json, lines
        from berth.cli.tuning.tuning import Plan, tuned

        text = _text(config)
        if trace is not None:
            site, arrivals = from_trace(trace, pods, profile, text, seed)
        elif folder is not None:
            site, arrivals = from_records(folder, profile, text, seed)
        else:
            raise CliError("name the folder of recorder's segments by --from, or one of CSV files by --trace")
        plan = Plan(seen, search_nodes, judge_nodes, orders, budget, turns, seed)
        stopped = threading.Event()

        def tell(said: str) -> None:
            print(said, file=sys.stderr, flush=True)

        def on_play() -> None:
            if stopped.is_set():
                raise CliError("stopped")

        try:
            found = await asyncio.to_thread(tuned, site, arrivals, plan, time.monotonic, tell, on_play)
        finally:
            stopped.set()  # a run that has begun is played to its end
        print(msgspec.json.encode(as_json(found)).decode() if json else "\n".join(lines(found)))
        return EXIT_OK

    return run(work())


def _text(config: Path | None) -> str | None:
    from berth.cli.errors import CliError

    try:
        return None if config is None else config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CliError(f"{config}: {error}") from error
