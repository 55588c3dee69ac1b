"""NVIDIA's library as a double in C that is loaded in its place: what is read of it, and what becomes of its events."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "worlds/nvml/nvml_double.c"
CC = shutil.which("cc")
ONE = "gpu GPU-1 0 85899345920 00000000:3B:00.0 4 NVIDIA H100 80GB HBM3"
TWO = "gpu GPU-2 1 85899345920 00000000:5E:00.0 -1 NVIDIA H100 80GB HBM3"
LOOKS = """
import json, sys
from msgspec import to_builtins
from berth.node_qos_enforcer.nvml import Nvml
now = [0.0]
nvml = Nvml(lambda: now[0])
for line in sys.stdin:
    now[0] = float(line)
    facts = nvml.facts()
    gpus = None if facts is None else [
        {name: getattr(gpu, name) for name in gpu.__dataclass_fields__} for gpu in facts.gpus
    ]
    stray = None if facts is None else facts.stray_xids
    driver = None if facts is None else facts.driver
    problems = [[problem.field, problem.message] for problem in nvml.problems]
    print(json.dumps({"gpus": gpus, "stray": stray, "driver": driver, "problems": problems}), flush=True)
nvml.close()
"""


class Library:
    """A process with the library, which looks when it is told to."""

    def __init__(self, folder: Path, library: Path | None, looks: str = LOOKS) -> None:
        self._file = folder / "gpus"
        environ = os.environ | {"FAKE_NVML": str(self._file)}
        if library is not None:
            environ["LD_LIBRARY_PATH"] = str(library.parent)
        self._lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", looks], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )

    def has(self, *lines: str) -> None:
        """GPUs from now on; events that were told stay in the file."""
        self._lines = list(lines)
        self._write()

    def event(self, line: str) -> None:
        with (self._file.with_suffix(".events")).open("a") as file:
            file.write(f"{line}\n")
        self._write()

    def look(self, second: float) -> dict[str, Any]:
        return dict(self.ask(f"{second}"))

    def ask(self, line: str = "") -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def xids(self, second: float) -> dict[str, list[int]]:
        return {gpu["uuid"]: gpu["xids"] for gpu in self.look(second)["gpus"]}

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(10) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _write(self) -> None:
        events = self._file.with_suffix(".events")
        told = events.read_text() if events.exists() else ""
        new = self._file.with_suffix(".new")
        new.write_text("\n".join(["driver 550.54", *self._lines, told]))
        new.replace(self._file)


@pytest.fixture(scope="module")
def double(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if CC is None:
        pytest.skip("no C compiler (cc) on this machine: the double of NVIDIA's library cannot be built")
    built = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run([CC, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", built, SOURCE], check=True)
    return built


@pytest.fixture
def library(double: Path, tmp_path: Path) -> Iterator[Library]:
    library = Library(tmp_path, double)
    yield library
    library.end()


def test_without_the_library_there_are_no_gpus_and_that_is_no_problem(tmp_path: Path) -> None:
    library = Library(tmp_path, None)
    assert library.look(0) == {"gpus": None, "stray": None, "driver": None, "problems": []}
    library.end()


def test_gpus_are_read_as_the_library_says(library: Library) -> None:
    library.has(ONE, TWO, "mute GPU-2")
    look = library.look(0)
    assert (look["driver"], look["problems"], look["stray"]) == ("550.54", [], [])
    first, second = look["gpus"]
    assert first == {
        "uuid": "GPU-1",
        "minor": 0,
        "memory": 80 << 30,
        "bus": "00000000:3B:00.0",
        "name": "NVIDIA H100 80GB HBM3",
        "module": 4,
        "xids": [],
        "tells_health": True,
        "is_split": False,
        "peers": [],
        "is_switched": False,
    }
    assert (second["minor"], second["module"], second["tells_health"]) == (1, None, False)


@pytest.mark.parametrize(
    ("line", "is_split"),
    [
        ("mig GPU-1 MIG-a 3 0 NVIDIA H100 80GB HBM3 MIG 1g.10gb", True),
        ("mode GPU-1 1", True),
        ("mode GPU-1 0", False),
        ("mode GPU-1 -3", False),
        ("mode GPU-1 -13", False),
    ],
)
def test_a_gpu_in_mig_mode_is_found_and_one_that_knows_no_mode_is_whole(
    library: Library, line: str, is_split: bool
) -> None:
    library.has(ONE, TWO, line)
    look = library.look(0)
    assert [gpu["is_split"] for gpu in look["gpus"]] == [is_split, False]
    assert look["problems"] == []


def test_a_gpu_whose_mig_mode_cannot_be_asked_is_not_given_out(library: Library) -> None:
    library.has(ONE, TWO, "mode GPU-1 -15")
    look = library.look(0)
    assert [gpu["uuid"] for gpu in look["gpus"]] == ["GPU-2"]
    assert [field for field, _ in look["problems"]] == ["nvml.devices[0]"]


def test_nvlinks_lead_to_gpus_and_switches(library: Library) -> None:
    direct = [f"link GPU-1 {at} 00000000:5E:00.0" for at in (0, 2)]
    library.has(ONE, TWO, *direct, "link GPU-1 1 x", "link GPU-1 3 ?", "link GPU-2 0 -", "link GPU-2 1 -")
    look = library.look(0)
    assert [(gpu["peers"], gpu["is_switched"]) for gpu in look["gpus"]] == [
        (["00000000:5E:00.0"], False),
        ([], True),
    ]
    assert look["problems"] == []


USES = """
import sys
from berth.node_qos_enforcer.gpu_use import GpuUse
use = GpuUse()
for line in sys.stdin:
    print(json.dumps(use.read()), flush=True)
use.close()
"""


def test_what_is_used_of_gpus_is_read_and_one_that_is_lost_is_left_out(double: Path, tmp_path: Path) -> None:
    library = Library(tmp_path, double, f"import json{USES}")
    mig = "mig GPU-2 MIG-a 3 0 NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    library.has(ONE, TWO, "use GPU-1 1073741824 37", mig)
    gpus, instances = library.ask()
    assert gpus == [
        [0, "GPU-1", "H100 80GB HBM3", 1 << 30, 37.0],
        [1, "GPU-2", "H100 80GB HBM3", 0, 0.0],
    ]
    assert instances == [[1, "GPU-2", "MIG-a", "1g.10gb", 3, 0]]
    library.has(ONE, TWO, "lost GPU-1")
    assert [each[1] for each in library.ask()[0]] == ["GPU-2"]
    library.has(ONE, "down")
    assert library.ask() == [[], []]
    library.has(ONE)
    assert [each[1] for each in library.ask()[0]] == ["GPU-1"]
    library.end()
    without = Library(tmp_path, None, f"import json{USES}")
    assert without.ask() == [[], []]
    without.end()


def test_an_event_counts_against_its_gpu_until_that_was_away(library: Library) -> None:
    library.has(ONE, TWO)
    library.look(0)
    library.event("xid GPU-1 79")
    assert library.xids(2) == {"GPU-1": [79], "GPU-2": []}
    library.event("xid GPU-1 48")
    library.event("xid GPU-1 79")
    assert library.xids(4) == {"GPU-1": [79, 48], "GPU-2": []}
    assert library.xids(400) == {"GPU-1": [79, 48], "GPU-2": []}, "time alone mends nothing"
    library.has(ONE, TWO, "lost GPU-1")
    look = library.look(402)
    assert [gpu["uuid"] for gpu in look["gpus"]] == ["GPU-2"], "the others are looked at"
    assert [field for field, _ in look["problems"]] == ["nvml.devices[0]"]
    library.has(ONE, TWO)
    assert library.xids(404) == {"GPU-1": [], "GPU-2": []}


def test_an_event_of_no_gpu_is_everybodys_until_the_driver_is_loaded_anew(library: Library) -> None:
    library.has(ONE)
    library.look(0)
    library.event("xid - 62")
    assert library.look(2)["stray"] == [62]
    library.has("down")
    look = library.look(4)
    assert (look["gpus"], [field for field, _ in look["problems"]]) == (None, ["nvml"])
    library.has(ONE)
    look = library.look(6)
    assert (look["stray"], [gpu["uuid"] for gpu in look["gpus"]]) == ([], ["GPU-1"])


def test_a_gpu_that_stays_lost_has_the_library_opened_anew_now_and_then(library: Library) -> None:
    library.has(ONE, TWO, "lost GPU-2")
    library.look(0)
    library.event("xid GPU-1 79")
    for second in (2, 40, 42, 90):
        assert library.xids(second) == {"GPU-1": [79]}, "what counts against another GPU is not forgotten by it"
    library.event("xid GPU-1 62")
    assert library.xids(92) == {"GPU-1": [79, 62]}
