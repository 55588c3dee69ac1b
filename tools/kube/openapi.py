"""Write the schemas of the kinds that the simulated cluster serves, as a real kube-apiserver publishes them.

    .venv/bin/python tools/kube/openapi.py     # after `make e2e-assets`

Descriptions are left out: a fifth of the size remains. One schema a line, so that a new version of Kubernetes can be
read as a difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from berth.simcluster.store.resource import BUILT_IN
from berth.testing.kube_server import KubeServer

TARGET = Path(__file__).parents[2] / "libs/simcluster/src/berth/simcluster/openapi/kubernetes.json"


def main() -> None:
    """Ask a fresh server and write the file."""
    wanted = {(resource.group, resource.version, resource.kind) for resource in BUILT_IN}
    known: dict[str, Any] = {}
    roots: list[str] = []
    with KubeServer() as server:
        for group, version in sorted({(group, version) for group, version, _ in wanted}):
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            schemas = fetch(server, f"/openapi/v3/{path}")["components"]["schemas"]
            known |= schemas
            for name, schema in schemas.items():
                kinds = schema.get("x-kubernetes-group-version-kind", ())
                if any((each["group"], each["version"], each["kind"]) in wanted for each in kinds):
                    roots.append(name)
    kept = {name: without_descriptions(known[name]) for name in sorted(reachable(roots, known))}
    lines = [f"{json.dumps(name)}: {json.dumps(schema, sort_keys=True)}" for name, schema in kept.items()]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{TARGET}: {len(kept)} schemas")


def fetch(server: KubeServer, path: str) -> Any:
    """The JSON behind a path, as an administrator."""
    return json.loads(server.kubectl("get", "--raw", path))


def reachable(roots: list[str], schemas: dict[str, Any]) -> set[str]:
    """The names of all schemas that these need."""
    seen: set[str] = set()
    ahead = list(roots)
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead += references(schemas[name])
    return seen


def references(node: Any) -> Iterator[str]:
    """The names of the schemas that a schema refers to."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rpartition("/")[2]
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def without_descriptions(node: Any) -> Any:
    """A schema without the texts for people."""
    if isinstance(node, dict):
        return {
            key: without_descriptions(value)
            for key, value in node.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [without_descriptions(value) for value in node] if isinstance(node, list) else node


if __name__ == "__main__":
    main()
