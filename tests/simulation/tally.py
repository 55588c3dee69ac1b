"""How many seeds the present code has come through, over as many runs as it takes.

The tally belongs to one state of the code: everything that a service is made of, the engine that runs it, and the
checkers that judge it. When any of that changes, counting starts at 0.

It grows under `build/`. Of a released state 500 seeds are recorded beside the code (`--record`), and counting goes on
from there in another checkout; a change asks for 200 fresh seeds of each profile on its last state.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
from tests.simulation.laws import Applied

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "simulation"
RECORD = Path(__file__).with_name("record.json")
UNDER_TEST = (
    "proto/src",
    "services",
    "libs",
    "tests/simulation",
    "tools/nats_permissions.py",
)
FAILED_KEPT = 1_000
KEPT = 40


class Tally(msgspec.Struct, kw_only=True):
    """`next_seed`: all seeds from `first_seed` to below it have been run.

    `digest` folds the digest of each run, in the order of seeds; `digests` has those of the first `KEPT`, for whoever
    compares machines. `applied`: how often each law was, and each excuse, over all runs.
    """

    code: str
    first_seed: int = 0
    next_seed: int = 0
    simulated_s: float = 0.0
    real_s: float = 0.0
    failed: list[int] = []
    facts: dict[str, int] = {}
    applied: Applied = msgspec.field(default_factory=Applied)
    digest: str = ""
    digests: dict[int, str] = {}

    @property
    def count(self) -> int:
        """How many seeds have been run."""
        return self.next_seed - self.first_seed

    def add(
        self,
        seed: int,
        digest: str,
        simulated_s: float,
        real_s: float,
        facts: dict[str, int],
        bad: bool,
        applied: Applied | None = None,
    ) -> None:
        """Count the run of the next seed. Raises ValueError for another one."""
        if seed != self.next_seed:
            raise ValueError(f"seed {seed}: the next one is {self.next_seed}")
        self.next_seed += 1
        self.simulated_s += simulated_s
        self.real_s += real_s
        self.digest = hashlib.blake2b(f"{self.digest}{digest}".encode(), digest_size=16).hexdigest()
        if len(self.digests) < KEPT:
            self.digests[seed] = digest
        for name, count in facts.items():
            self.facts[name] = self.facts.get(name, 0) + count
        if applied is not None:
            self.applied.add(applied)
        if bad and len(self.failed) < FAILED_KEPT:
            self.failed.append(seed)


def code_under_test() -> str:
    """A hash of the sources, the same wherever they lie."""
    found = hashlib.blake2b(digest_size=12)
    for part in UNDER_TEST:
        for file in [ROOT / part] if part.endswith(".py") else sorted((ROOT / part).rglob("*.py")):
            found.update(f"{file.relative_to(ROOT)}\0".encode())
            found.update(file.read_bytes())
    return found.hexdigest()


def fresh(code: str) -> int:
    """A seed that nobody has looked at for another state of the code: where fresh ones begin."""
    return int(code[:8], 16) * 1_000


def load(code: str, folder: Path = FOLDER, *, first_seed: int = 0, record: Path = RECORD) -> Tally:
    """What has been counted for this code, here or by whoever recorded it; a new tally from `first_seed` otherwise."""
    kept = [
        each for path in (folder / f"{code}.json", record) if (each := _read(path)) is not None and each.code == code
    ]
    new = Tally(code=code, first_seed=first_seed, next_seed=first_seed)
    return max([each for each in kept if each.count], key=lambda each: each.count, default=new)


def save(tally: Tally, folder: Path = FOLDER) -> None:
    """Whole or not at all, so that a run may be stopped at any time."""
    folder.mkdir(parents=True, exist_ok=True)
    write(tally, folder / f"{tally.code}.json")


def write(tally: Tally, path: Path) -> None:
    """Into this file, whole or not at all."""
    new = path.with_suffix(".new")
    new.write_bytes(msgspec.json.format(msgspec.json.encode(tally)) + b"\n")
    new.replace(path)


def _read(path: Path) -> Tally | None:
    """None: there is none, or it cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Tally)
    except (OSError, msgspec.MsgspecError):
        return None
