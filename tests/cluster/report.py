"""What a run says: lines with times while it goes on, and in the end the generated part of a document."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

BEGIN, END = "<!-- begin: written by the run -->", "<!-- end -->"
MEASURED = "<!-- begin: measured by a run -->"
"""Where stands what a run of some acts has shown."""
BEFORE_ACTS = 2
"""Sections: the cluster, and Berth on it."""


class Report:
    """Collects; `write` puts it between the marks of a document."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last = self._began
        self._sections: list[tuple[str, list[str]]] = []
        self._tables: dict[str, list[str]] = {}
        self.versions: dict[str, str] = {}
        self.date = time.strftime("%Y-%m-%d")

    def section(self, title: str) -> None:
        """What follows belongs together."""
        print(f"\n== {title}", flush=True)
        self._sections.append((title, []))

    def step(self, text: str) -> None:
        """Something was reached; the table says when, and how long it took."""
        now = time.monotonic()
        took, self._last = now - self._last, now
        print(f"{now - self._began:7.1f} s  {text}  ({took:.1f} s)", flush=True)
        self._lines().append(f"| {now - self._began:.0f} | {took:.1f} | {text} |")

    def note(self, text: str) -> None:
        """Something on the way, for who is watching only."""
        print(f"{time.monotonic() - self._began:7.1f} s    {text}", flush=True)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Figures of the section, below its steps."""
        title = self._sections[-1][0] if self._sections else ""
        lines = [f"| {' | '.join(each)} |" for each in (head, ["---"] * len(head), *rows)]
        print("\n".join(lines), flush=True)
        self._tables.setdefault(title, []).extend(["", *lines])

    def _lines(self) -> list[str]:
        if not self._sections:
            self._sections.append(("Run", []))
        return self._sections[-1][1]

    def document(self) -> str:
        """The generated part."""
        seconds = time.monotonic() - self._began
        lines = [
            f"Run of {self.date}: {seconds / 60:.1f} minutes on {machine()}.",
            "",
            "| part | version |",
            "| --- | --- |",
        ]
        lines += [f"| {name} | {version} |" for name, version in self.versions.items()]
        for title, steps in self._sections:
            lines += ["", f"### {title}", "", "| at s | took s | what |", "| --: | --: | --- |", *steps]
            lines += self._tables.get(title, [])
        return "\n".join(lines) + "\n"

    def chosen(self) -> str:
        """The generated part of a run of some acts: what they have shown, without how they came about."""
        lines = [f"Run of {self.date} on {machine()}."]
        for title, steps in self._sections[BEFORE_ACTS:]:
            lines += ["", f"### {title}", "", *(f"- {step.split(' | ', 2)[2].removesuffix(' |')}" for step in steps)]
            lines += self._tables.get(title, [])
        return "\n".join(lines) + "\n"

    def write(self, path: Path, begin: str = BEGIN) -> None:
        """Put it into a document that has the marks, or into a new one. Raises ValueError for one without them."""
        text = path.read_text() if path.exists() else f"{begin}\n{END}\n"
        before, found, rest = text.partition(begin)
        _, end, after = rest.partition(END)
        if not found or not end:
            raise ValueError(f"{path} has no lines {begin} and {END}")
        written = self.document() if begin == BEGIN else self.chosen()
        path.write_text(f"{before}{begin}\n{written}{END}{after}")


def machine() -> str:
    """Cores, memory, kernel, control groups: what times depend on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    kernel = ".".join(platform.release().split(".")[:2])
    groups = "version 2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "version 1"
    name = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, {name}, Linux {kernel}, control groups {groups}"
