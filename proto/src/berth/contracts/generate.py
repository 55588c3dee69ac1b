"""Write what is generated from the contract, or check that it is up to date.

python -m berth.contracts.generate           write proto/schemas/*.json, SUBJECTS.md, asyncapi.json, k8s/crds/*.json
python -m berth.contracts.generate --check   exit 1 and name the files that differ
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import msgspec

from berth.contracts import asyncapi
from berth.contracts.catalogue import CHANNELS

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def main(arguments: list[str], root: Path | None = None) -> int:
    """Write or check below `root`, by default this checkout; 0 when all is as it should be."""
    root = root or _root()
    wanted = dict(_files())
    if "--check" not in arguments:
        for name, text in wanted.items():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        for name in _strangers(root, wanted):
            (root / name).unlink()
        print(f"wrote {len(wanted)} files")
        return 0
    wrong = [name for name, text in wanted.items() if _read(root / name) != text] + _strangers(root, wanted)
    for name in wrong:
        print(f"{name} is not what the contract says: run `make contracts`", file=sys.stderr)
    return 1 if wrong else 0


def _files() -> Iterator[tuple[str, str]]:
    for channel in CHANNELS:
        yield f"proto/schemas/{channel.tag}.json", _schema(channel.message)
    yield "proto/SUBJECTS.md", _subjects()
    yield "proto/asyncapi.json", _json(asyncapi.document())
    crds = resources.files("berth.contracts") / "crds"
    for entry in sorted(crds.iterdir(), key=lambda each: each.name):
        if entry.name.endswith(".json"):
            yield f"k8s/crds/{entry.name}", entry.read_text()


def _schema(message: type[msgspec.Struct]) -> str:
    schema: dict[str, Any] = {"$schema": SCHEMA_DIALECT, **msgspec.json.schema(message)}
    return _json(schema, order="sorted")


def _json(value: Any, order: Literal["sorted"] | None = None) -> str:
    return msgspec.json.format(msgspec.json.encode(value, order=order), indent=2).decode() + "\n"


def _subjects() -> str:
    lines = [
        "# Messages and where they travel",
        "",
        "Generated from `berth.contracts.catalogue`; do not edit. Names in patterns are escaped as",
        "`berth.contracts.subjects` says: a dot becomes `_`, the empty name `=`, anything else but letters, digits and",
        "`-` becomes `=` and two hex digits. Schemas are in `schemas/`, named by the tag.",
        "",
        "`<account>` is `node.<name>`, `quota.<tree>.<group>` or `reservation.<name>`. `<phase>` is in lower case. In",
        "decisions and events of placement an empty namespace (`=`) means a Reservation. A question is answered by one",
        "instance of the service; on the same subject with `.all` behind it each of them answers.",
        "",
        "| tag | bucket or stream | key or subject | written by |",
        "| --- | --- | --- | --- |",
    ]
    lines += [f"| `{c.tag}` | {c.place} | `{c.pattern}` | {c.writer} |" for c in CHANNELS]
    return "\n".join(lines) + "\n"


def _strangers(root: Path, wanted: dict[str, str]) -> list[str]:
    """Generated files that nothing generates any more."""
    found = [*(root / "proto/schemas").glob("*.json"), *(root / "k8s/crds").glob("*.json")]
    return [name for path in found if (name := str(path.relative_to(root))) not in wanted]


def _read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def _root() -> Path:
    """The checkout: the folder above `proto/`."""
    for folder in Path(__file__).resolve().parents:
        if folder.name == "proto":
            return folder.parent
    raise SystemExit("berth.contracts is not run from a checkout")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
