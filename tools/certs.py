"""Print the objects that give the bus its certificate; `| kubectl apply -f -` puts them in place.

Usage: certs.py [--folder .certs] [--name ADDRESS ...] [--days 365] [--cert-manager]

Makes an authority in the folder on the first run, and keeps it: that key signs every later certificate, so keep the
folder to yourself. Each run makes a new certificate for the servers, valid for their names in the cluster, for
127.0.0.1 (a forwarded port), and for each --name: an address or a DNS name that clients outside the cluster use.

    ConfigMap berth-ca   (both namespaces)  the authority's certificate; every client checks the servers by it
    Secret nats-tls      the servers' certificate and key; only their pods mount it
    Secret berth-ca-key  instead of nats-tls with --cert-manager: the authority, from which components/cert-manager
                         issues and renews nats-tls

Needs `openssl` (1.1.1 or newer) and Python's standard library. Without --cert-manager run it again before the
certificate ends, then `nats-server --signal reload=1` in the pods of the servers.
"""

from __future__ import annotations

import argparse
import ipaddress
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

NAMESPACE = "berth-system"
CLIENT_NAMESPACES = ("berth-system", "berth-nodes")
SERVICE = "nats"
CA_DAYS = 3650
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_CA_CONFIG = """[req]
distinguished_name = name
x509_extensions = extensions
[name]
[extensions]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
"""
"""Instead of the machine's own openssl.cnf, which may add or lack extensions."""


def server_names() -> list[str]:
    """Names under which the servers are reached in the cluster and on a forwarded port."""
    service = f"{SERVICE}.{NAMESPACE}"
    inside = [SERVICE, service, f"{service}.svc", f"{service}.svc.cluster.local"]
    return [*inside, *(f"*.{name}" for name in inside), "localhost", "127.0.0.1"]


def alternative(name: str) -> str:
    """A name as a certificate lists it. Raises ValueError for what is neither an address nor a host name."""
    try:
        return f"IP:{ipaddress.ip_address(name)}"
    except ValueError:
        if not name or not all(char.isalnum() or char in "-.*" for char in name):
            raise ValueError(f"{name!r} is neither an address nor a host name") from None
        return f"DNS:{name}"


class Authority:
    """The authority in a folder: made when it is not there, readable for its owner only."""

    def __init__(self, folder: Path) -> None:
        self.key, self.certificate = folder / "ca.key", folder / "ca.crt"
        if self.key.is_file() and self.certificate.is_file():
            return
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory() as place:
            config = Path(place) / "config"
            config.write_text(_CA_CONFIG)
            openssl(
                *("req", "-x509", *_KEY, "-days", str(CA_DAYS), "-subj", "/CN=berth-ca", "-config", str(config)),
                *("-keyout", str(self.key), "-out", str(self.certificate)),
            )

    def issue(self, names: list[str], days: int) -> tuple[str, str]:
        """A key and a certificate for a server under these names; servers also use it towards each other."""
        with tempfile.TemporaryDirectory() as place:
            key, request, out, more = (f"{place}/{name}" for name in ("tls.key", "tls.csr", "tls.crt", "extensions"))
            lines = (
                f"subjectAltName={','.join(map(alternative, names))}",
                "basicConstraints=critical,CA:FALSE",
                "keyUsage=critical,digitalSignature",
                "extendedKeyUsage=serverAuth,clientAuth",
                "subjectKeyIdentifier=hash",
                "authorityKeyIdentifier=keyid",
            )
            Path(more).write_text("\n".join(lines) + "\n")
            openssl("req", "-new", *_KEY, "-subj", "/CN=berth-nats", "-keyout", key, "-out", request)
            serial = f"0x{os.urandom(16).hex()}"
            openssl(
                *("x509", "-req", "-in", request, "-CA", str(self.certificate), "-CAkey", str(self.key)),
                *("-set_serial", serial, "-days", str(days), "-sha256", "-extfile", more, "-out", out),
            )
            return Path(key).read_text(), Path(out).read_text()


def manifests(authority: Authority, names: list[str], days: int, *, cert_manager: bool) -> list[dict[str, object]]:
    """The namespaces, the authority's certificate for clients, and what the servers need."""
    ca = authority.certificate.read_text()
    found: list[dict[str, object]] = [_object("Namespace", name, None) for name in CLIENT_NAMESPACES]
    found += [_object("ConfigMap", "berth-ca", name) | {"data": {"ca.crt": ca}} for name in CLIENT_NAMESPACES]
    if cert_manager:
        files = {"tls.key": authority.key.read_text(), "tls.crt": ca}
        name = "berth-ca-key"
    else:
        key, certificate = authority.issue([*server_names(), *names], days)
        files = {"tls.key": key, "tls.crt": certificate, "ca.crt": ca}
        name = "nats-tls"
    found.append(_object("Secret", name, NAMESPACE) | {"type": "kubernetes.io/tls", "stringData": files})
    return found


def _object(kind: str, name: str, namespace: str | None) -> dict[str, object]:
    meta: dict[str, object] = {"name": name}
    if namespace is not None:
        meta |= {"namespace": namespace, "labels": {"app.kubernetes.io/part-of": "berth"}}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta}


def openssl(*arguments: str) -> None:
    """Run it; ends the program with what it said when it fails."""
    umask = os.umask(0o077)
    try:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607
    except FileNotFoundError:
        raise SystemExit("certs.py needs openssl: install the package of that name") from None
    finally:
        os.umask(umask)
    if done.returncode:
        raise SystemExit(f"openssl {arguments[0]} failed: {done.stderr.strip()}")


def main(arguments: list[str]) -> int:
    """Print one list of objects."""
    parser = argparse.ArgumentParser(description="Print the Kubernetes objects with the certificate of the bus.")
    parser.add_argument("--folder", type=Path, default=Path(".certs"), help="where the authority is kept (.certs)")
    parser.add_argument("--name", action="append", default=[], help="address or DNS name used from outside; repeatable")
    parser.add_argument("--days", type=int, default=365, help="how long the servers' certificate is valid (365)")
    parser.add_argument("--cert-manager", action="store_true", help="hand the authority to cert-manager instead")
    options = parser.parse_args(arguments)
    try:
        for name in options.name:
            alternative(name)
    except ValueError as error:
        parser.error(f"--name: {error}")
    if options.days < 1:
        parser.error("--days: at least 1")
    items = manifests(Authority(options.folder), options.name, options.days, cert_manager=options.cert_manager)
    json.dump({"apiVersion": "v1", "kind": "List", "items": items}, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
