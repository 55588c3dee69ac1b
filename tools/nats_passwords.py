"""Print the Secrets with a random password for each user of the bus; `| kubectl apply -f -` puts them in place.

Needs `openssl` (1.1.1 or newer) and Python's standard library. The server gets all passwords in one Secret, each
service finds its own in a Secret of its own; the namespaces come along, so that this can be the first thing to be
applied. Node agents have no password: they show a token of their pod, and node-authenticator signs what they may do,
with a key of which the server gets the public half. Run it once per cluster. Another run replaces all of it: restart
the servers then (`kubectl -n berth-system rollout restart statefulset/nats deployment/node-authenticator`); services
read their passwords anew with each connection.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

USERS_FILE = Path(__file__).resolve().parent.parent / "k8s/components/nats/users.conf"
AUTHENTICATOR = "node-authenticator"
ISSUER_VARIABLE = "NATS_LOGIN_ISSUER"
SEED_KEY = "signing-seed"
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


def account_key() -> tuple[str, str]:
    """Seed and public key of a new account of NATS: Ed25519, as docs.nats.io (nkeys) writes them down."""
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-outform", "DER"]
    private = subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603
    command = ["openssl", "pkey", "-inform", "DER", "-pubout", "-outform", "DER"]
    public = subprocess.run(command, input=private, capture_output=True, check=True).stdout  # noqa: S603
    # Both forms of DER end with the 32 bytes of the key. The first bytes become the letters SA and A.
    return _nkey(bytes([18 << 3, 0]) + private[-32:]), _nkey(bytes([0]) + public[-32:])


def _nkey(raw: bytes) -> str:
    checksum = binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(raw + checksum).rstrip(b"=").decode()


def manifests(passwords: Mapping[str, str]) -> list[dict[str, object]]:
    """The namespaces, the server's Secret with all passwords, and one Secret per user with its own."""
    seed, issuer = account_key()
    variables = users()
    found: list[dict[str, object]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in ("berth-system", "berth-nodes")
    ]
    environment = {variables[user]: value for user, value in passwords.items()} | {ISSUER_VARIABLE: issuer}
    found.append(_secret("berth-system", SERVER_SECRET, environment))
    for user, value in passwords.items():
        more = {SEED_KEY: seed} if user == AUTHENTICATOR else {}
        found.append(_secret("berth-system", user_secret(user), {USER_KEY: value} | more))
    return found


def _secret(namespace: str, name: str, values: Mapping[str, str]) -> dict[str, object]:
    meta = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "berth"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": dict(values)}


def main() -> int:
    """Print one list of objects."""
    try:
        items = manifests({user: password() for user in users()})
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"cannot make a key with openssl (1.1.1 or newer): {error}", file=sys.stderr)
        return 1
    json.dump({"apiVersion": "v1", "kind": "List", "items": items}, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
