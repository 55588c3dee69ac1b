"""Who may talk to the test API server: its signing key, and kubeconfig files."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path

_EC_PRIVATE_KEY = bytes.fromhex("30310201010420")
_P256 = bytes.fromhex("a00a06082a8648ce3d030107")


def write_signing_key(path: Path) -> None:
    """A fresh P-256 private key as PEM (SEC 1 without the optional public key, which readers derive)."""
    scalar = (secrets.randbits(255) | 1).to_bytes(32, "big")  # below the order of the curve
    text = base64.encodebytes(_EC_PRIVATE_KEY + scalar + _P256).decode()
    path.write_text(f"-----BEGIN EC PRIVATE KEY-----\n{text}-----END EC PRIVATE KEY-----\n")
    path.chmod(0o600)


def write_kubeconfig(path: Path, *, server: str, ca_file: Path, user: str, token: str, namespace: str) -> Path:
    """A kubeconfig with one context; JSON, which is YAML too."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": user, "namespace": namespace}}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(config, indent=2) + "\n")
    path.chmod(0o600)
    return path
