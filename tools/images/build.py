"""Build the images of Berth and say how large they are; exit code 1 when one is too large.

Usage: build.py [--check] [NAME...]. Without names: all. `--check` builds nothing and measures what is there. The
environment names the base (`PYTHON_IMAGE`), the tag (`BERTH_TAG`, `dev`), and options of `docker build` in
`DOCKER_BUILD_ARGS`. Python's standard library and a Docker client are all it needs.

What counts is what an image adds to its base: that is what Berth can do something about, and what a node with other
Python images has to fetch.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BASE = "python:3.13-slim"
LIMIT_MB = 120
LIMITS_MB = {"placement-solver": 450, "node-qos-enforcer-tools": 130}
"""Added to the base, in units of 10^6 bytes as Docker prints them. The solver carries numpy, scipy, cvxpy and HiGHS."""
OTHERS = ("nats", "simulated-api", "cli")
VARIANTS = {"node-qos-enforcer-tools": ("node-qos-enforcer", "AGENT", "tools/images/with_tools.Dockerfile")}
"""Images on top of others, built only where they are named: the image below, the argument for it, the Dockerfile."""


class Layers(NamedTuple):
    """An image: its size in bytes, and the digests of its layers from the lowest up."""

    size: int
    digests: tuple[str, ...]


def names() -> list[str]:
    """All images."""
    services = (path.parent.name for path in (ROOT / "services").glob("*/pyproject.toml"))
    return [*OTHERS, *sorted(services)]


def image(name: str) -> str:
    """What an image is called."""
    return f"berth/{name}:{os.environ.get('BERTH_TAG') or 'dev'}"


def base() -> str:
    """The image that all are built from."""
    return os.environ.get("PYTHON_IMAGE") or BASE


def build(name: str) -> bool:
    """Build one; whether it went well."""
    which = ["--target", "nats"] if name == "nats" else ["--build-arg", f"SERVICE={name}"]
    if name in VARIANTS:
        below, argument, file = VARIANTS[name]
        which = ["--build-arg", f"{argument}={image(below)}", "-f", str(ROOT / file)]
    options = shlex.split(os.environ.get("DOCKER_BUILD_ARGS", ""))
    command = ["docker", "build", "-q", "--build-arg", f"PYTHON_IMAGE={base()}", *which, *options, "-t", image(name)]
    print(f"building {image(name)}", flush=True)
    command.append(str(ROOT))
    done = subprocess.run(command, stdout=PIPE, stderr=STDOUT, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        print(f"{image(name)} cannot be built. {_hint(done.stdout)}", file=sys.stderr)
    return done.returncode == 0


def _hint(output: str) -> str:
    if "Cannot connect to the Docker daemon" in output:
        return "Is a Docker engine running?"
    if base().partition(":")[0] in output and ("pull" in output or "manifest" in output or "lookup" in output):
        return f"Where {base()} cannot be pulled, tools/images/offline_base.sh makes a base; name it in PYTHON_IMAGE."
    return "The end of its output says why."


def layers(reference: str) -> Layers | None:
    """What the engine knows of an image; None when it has none of that name."""
    command = ["docker", "image", "inspect", reference]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode:
        return None
    (found,) = json.loads(done.stdout)
    return Layers(found["Size"], tuple(found["RootFS"]["Layers"]))


def measure(wanted: list[str]) -> int:
    """Print the table; how many images are missing or too large."""
    below = layers(base())
    if below is None:
        print(f"{base()} is not there to compare with: docker pull {base()}", file=sys.stderr)
        return 1
    bad = 0
    print(f"\n{'image':<34}{'total MB':>10}{'added MB':>10}{'limit':>7}")
    for name in wanted:
        found = layers(image(name))
        if found is None:
            print(f"{image(name):<34}{'missing':>10}")
            bad += 1
            continue
        added, limit = (found.size - below.size) / 1e6, LIMITS_MB.get(name, LIMIT_MB)
        word = ""
        if found.digests[: len(below.digests)] != below.digests:
            word, bad = f"  not built on {base()}", bad + 1
        elif added >= limit:
            word, bad = "  too large", bad + 1
        print(f"{image(name):<34}{found.size / 1e6:>10.1f}{added:>10.1f}{limit:>7}{word}")
    return bad


def main(arguments: list[str]) -> int:
    """0 when all is built and small."""
    wanted = [each for each in arguments if not each.startswith("-")] or names()
    known = [*names(), *VARIANTS]
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        print(f"no image is called {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    try:
        if "--check" not in arguments and not all(build(name) for name in wanted):
            return 1
        return 1 if measure(wanted) else 0
    except FileNotFoundError:
        print("no `docker` on PATH: images are built with a Docker client and engine", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
