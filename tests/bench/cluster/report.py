"""The race as tables: what was measured for each contender, and the ratio of the two."""

from __future__ import annotations

from collections.abc import Iterator

import calls
from figures import Course, Race, median

_SERVERS = ("kube-apiserver", "etcd", "load client")
_TITLE = {
    "backlog": "backlog: all pods created while the contender was away, then it comes back",
    "rush": "rush: created as fast as the client can, contender running",
    "steady": "steady: created at {rate:g} a second",
    "kills": "kills: pods come while each process of Berth is killed once",
    "preemption": "preemption: pods of high priority come to nodes full of low priority",
    "first start": "first start: all pods there before the contender is started for the first time",
}


def lines(race: Race) -> Iterator[str]:
    """The report."""
    yield f"{race.nodes} nodes, {race.pods} pods ({race.shape}); Kubernetes {race.kubernetes}; {race.machine}"
    for name, title in _TITLE.items():
        by_contender = {
            contender: median([course for course in courses if course.name == name])
            for contender, courses in race.courses.items()
            if any(course.name == name for course in courses)
        }
        if by_contender:
            yield ""
            yield title.format(rate=race.rate)
            for contender, course in by_contender.items():
                if course.killed:
                    bound = course.pods - course.unbound
                    yield f"  {contender}: killed {', '.join(course.killed)}; {bound} of {course.pods} pods bound"
            yield from _table(by_contender)
            for contender, course in by_contender.items():
                if course.spans:
                    yield f"  {contender + ', by step, ms':<36}{'p50':>16}{'p99':>16}"
                for step, (p50, p99) in course.spans.items():
                    yield f"    {step:<34}{_cell(p50):>16}{_cell(p99):>16}"


def _table(by_contender: dict[str, Course]) -> Iterator[str]:
    names = list(by_contender)
    both = names == ["kube-scheduler", "berth"] or names == ["berth", "kube-scheduler"]
    head = "".join(f"{name:>16}" for name in names) + (f"{'berth/k-s':>12}" if both else "")
    yield f"  {'':<36}{head}"
    for label, values in _rows(by_contender):
        cells = "".join(f"{_cell(values.get(name)):>16}" for name in names)
        ratio = ""
        if both and values.get("berth") and values.get("kube-scheduler"):
            ratio = f"{values['berth'] / values['kube-scheduler']:>12.2f}"  # type: ignore[operator]
        yield f"  {label:<36}{cells}{ratio}"


def _rows(by_contender: dict[str, Course]) -> Iterator[tuple[str, dict[str, float | None]]]:
    def row(label: str, of: object) -> tuple[str, dict[str, float | None]]:
        return label, {name: of(course) for name, course in by_contender.items()}  # type: ignore[operator]

    yield row("pods/s", lambda course: course.pods_per_s)
    if any(course.unbound for course in by_contender.values()):
        yield row("NOT BOUND, pods", lambda course: float(course.unbound))
    if any(course.victims for course in by_contender.values()):
        yield row("victims, pods", lambda course: float(course.victims))
    if any(course.created_per_s for course in by_contender.values()):
        yield row("created/s by the client", lambda course: course.created_per_s)
    if any(course.p50_ms for course in by_contender.values()):
        yield row("create to bound, p50 ms", lambda course: course.p50_ms)
        yield row("create to bound, p99 ms", lambda course: course.p99_ms)
    if any(course.contender_cpu_ms for course in by_contender.values()):
        yield row("CPU ms/pod, contender in all", lambda course: course.contender_cpu_ms)
    ours = [name for course in by_contender.values() for name in course.cpu_ms if name not in _SERVERS]
    for process in (*sorted(set(ours)), *_SERVERS):
        yield row(f"  {process}", lambda course, process=process: course.cpu_ms.get(process))
    if any(course.start_cpu_s for course in by_contender.values()):
        yield row("start until the first bind, CPU s", lambda course: course.start_cpu_s)
    yield row("peak MiB, contender in all", lambda course: course.contender_peak_mib)
    for process in sorted(set(ours)):
        yield row(f"  {process}", lambda course, process=process: course.peak_mib.get(process))
    yield row("API writes/pod", lambda course: calls.writes(course.calls))
    for call in sorted({call for course in by_contender.values() for call in course.calls}):
        yield row(f"  {call}", lambda course, call=call: course.calls.get(call))


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
