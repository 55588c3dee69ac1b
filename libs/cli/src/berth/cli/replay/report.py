"""The table at the end of a replay."""

from __future__ import annotations

from collections.abc import Sequence

from berth.cli.output import WIDTH_MAX, columns, fitted, painted
from berth.cli.replay.figures import Figures, Law


def report(figures: Figures) -> list[str]:
    """Lines for people."""
    kills = f", {figures.kills} kills" if figures.kills else ""
    facts = [
        ("cluster", f"{figures.nodes} nodes, {figures.gpus} GPUs"),
        ("pods", f"{figures.pods}: {figures.bound} bound, {figures.refused} refused with a reason{kills}"),
        ("GPUs given out", f"{figures.allocated * 100:.2f} %"),
        ("pods/s", f"{figures.rate:.0f} from first create to last bind, {figures.sustained:.0f} in the middle 90 %"),
        ("create to bound", f"p50 {figures.latency_p50_ms:.0f} ms, p99 {figures.latency_p99_ms:.0f} ms"),
    ]
    lines = [f"replay of {figures.trace} in {figures.seconds:.1f} s", *columns(facts, indent="  "), ""]
    if figures.shapes:
        table = [("SHAPE", "pods", "bound", "told why", "mostly")]
        table += [
            (each.shape, str(each.pods), str(each.bound), str(each.refused), each.reason) for each in figures.shapes
        ]
        lines += [*(fitted(line) for line in columns(table, indent="  ", right=(1, 2, 3))), ""]
    rows = [("PROCESS", "CPU s", "ms/pod", "peak MiB", "starts")]
    rows += [
        (
            str(row["process"]),
            f"{row['cpu_s']:.1f}",
            f"{row['cpu_ms_per_pod']:.2f}",
            str(row["rss_mib"]),
            str(row["starts"]),
        )
        for row in figures.processes
    ]
    lines += columns(rows, indent="  ", right=(1, 2, 3, 4))
    lines.append("")
    lines += laws(figures.laws)
    lines += [fitted(f"  BROKEN   {violation}") for violation in figures.violations[:20]]
    if figures.unexplained:
        lines.append(f"  INCOMPLETE: {figures.unexplained} pods have neither a node nor a reason")
    return lines


def mark(is_good: bool, otherwise: str) -> str:
    """`ok`, or the other word, padded and coloured."""
    return painted(f"{'ok' if is_good else otherwise:<7}", "green" if is_good else "red")


def laws(checked: Sequence[Law]) -> list[str]:
    """One line per law, and what breaks it or why it could not be judged."""
    lines = []
    for law in checked:
        word = painted(f"{'-':<7}", "yellow") if law.not_judged else mark(law.ok, "BROKEN")
        lines.append(f"  {word}  {fitted(law.sentence, WIDTH_MAX - 11)}")
        lines += [fitted(f"           not judged: {law.not_judged}")] if law.not_judged else []
        lines += [fitted(f"           {text}") for text in law.evidence]
    return lines
