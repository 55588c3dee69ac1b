"""The shipped configuration of the three servers, as tests run it: TLS, routes and users; other ports and paths."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.deploy.manifests import K8S, tool, users_conf

PASSWORD = "pw"
"""Every user's."""

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")


def make_certificates(folder: Path) -> Path:
    """tls.key, tls.crt and ca.crt, as the Secret of the servers holds them; and the users' password as a file."""
    certs = tool("certs")
    key, certificate = certs.Authority(folder).issue(certs.server_names(), 1)
    (folder / "tls.key").write_text(key)
    (folder / "tls.crt").write_text(certificate)
    (folder / "password").write_text(PASSWORD)
    return folder


def config_of(certificates: Path) -> str:
    """For `NatsCluster`, the same for each server: its name, ports and store are the test's."""
    text = (K8S / "components/nats-cluster/nats.conf").read_text()
    text = re.sub(r"(?m)^(server_name|port|http):.*$", "", text)
    text = re.sub(r"(?ms)^jetstream \{.*?^\}$", "", text)
    text = re.sub(r"(?s)routes: \[.*?\]", "routes: [ $ROUTES ]", text)
    text = text.replace("port: 6222", "host: 127.0.0.1\n  port: $ROUTE_PORT").replace(
        "/etc/nats-tls", str(certificates)
    )
    text = text.replace("include users.conf", users_conf(PASSWORD))
    assert "include" not in text
    return text
