"""Print the Secrets with a random password for each user of the bus; `| kubectl apply -f -` puts them in place.

Python's standard library only. Run it once per cluster: another run replaces the passwords, and server and services
then have to be restarted. The namespaces come along, so that this can be the first thing to be applied.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping

USERS = (
    "cluster-watcher",
    "cluster-writer",
    "device-inventory",
    "quota-manager",
    "reservation-manager",
    "placement-solver",
    "node-qos-enforcer",
    "reader",
)
NODE_USERS = ("node-qos-enforcer",)
SECRET = "nats-passwords"


def password() -> str:
    """The server reads a value that looks like a number as one: hence the letter in front."""
    return f"p{secrets.token_hex(24)}"


def manifests(passwords: Mapping[str, str]) -> list[dict[str, object]]:
    """The namespaces, all passwords for the server, and only their own for the node agents."""
    homes = {"berth-system": passwords, "berth-nodes": {user: passwords[user] for user in NODE_USERS}}
    found: list[dict[str, object]] = []
    for namespace, users in homes.items():
        found.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        meta = {"name": SECRET, "namespace": namespace}
        found.append({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": dict(users)})
    return found


def main() -> int:
    """Print one list of objects."""
    items = manifests({user: password() for user in USERS})
    json.dump({"apiVersion": "v1", "kind": "List", "items": items}, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
