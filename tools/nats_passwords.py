"""Print the Secrets with a random password for each user of the bus; `| kubectl apply -f -` puts them in place.

Python's standard library only. The server gets all passwords in one Secret, each service finds its own in a Secret of
its own; the namespaces come along, so that this can be the first thing to be applied. Run it once per cluster. Another
run replaces the passwords: restart the servers then (`kubectl -n berth-system rollout restart statefulset nats`);
services read theirs anew with each connection.
"""

from __future__ import annotations

import json
import re
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path

USERS_FILE = Path(__file__).resolve().parent.parent / "k8s/components/nats/users.conf"
NODE_USERS = ("node-qos-enforcer",)
SERVER_SECRET = "nats-passwords"
USER_KEY = "password"


def users() -> dict[str, str]:
    """Every user of the bus, and the variable of the server's environment that holds its password."""
    return dict(re.findall(r'user: "([^"]+)", password: \$(\w+)', USERS_FILE.read_text()))


def user_secret(user: str) -> str:
    """Name of the Secret that a user finds its password in."""
    return f"nats-user-{user}"


def password() -> str:
    """The server reads a value that looks like a number as one: hence the letter in front."""
    return f"p{secrets.token_hex(24)}"


def manifests(passwords: Mapping[str, str]) -> list[dict[str, object]]:
    """The namespaces, the server's Secret with all passwords, and one Secret per user with its own."""
    variables = users()
    found: list[dict[str, object]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in ("berth-system", "berth-nodes")
    ]
    environment = {variables[user]: value for user, value in passwords.items()}
    found.append(_secret("berth-system", SERVER_SECRET, environment))
    for user, value in passwords.items():
        namespace = "berth-nodes" if user in NODE_USERS else "berth-system"
        found.append(_secret(namespace, user_secret(user), {USER_KEY: value}))
    return found


def _secret(namespace: str, name: str, values: Mapping[str, str]) -> dict[str, object]:
    meta = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "berth"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": dict(values)}


def main() -> int:
    """Print one list of objects."""
    items = manifests({user: password() for user in users()})
    json.dump({"apiVersion": "v1", "kind": "List", "items": items}, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
