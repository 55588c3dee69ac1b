"""The bus of the manifests: its users' passwords, its certificate, its configuration."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import nkeys
import pytest
import yaml
from tests.deploy.manifests import AGENT, K8S, ROOT, WORKLOADS, Json, name_of, of_kind, pod_of, tool, workload_named

from berth.testing.nats_server import find_server

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make a certificate with")


def projected(each: Json, volume: str) -> list[Json]:
    (found,) = [known for known in pod_of(each)["volumes"] if known["name"] == volume]
    sources = found["projected"]["sources"]
    assert isinstance(sources, list)
    return sources


def test_every_user_has_a_password_that_reaches_server_and_service() -> None:
    permissions, passwords = tool("nats_permissions"), tool("nats_passwords")
    assert set(passwords.users()) == {*permissions.PARTS, permissions.READER} - {AGENT}
    assert passwords.users() == {user: permissions.password_variable(user) for user in passwords.users()}
    secrets = {
        (each["metadata"]["namespace"], name_of(each)): each["stringData"]
        for each in passwords.manifests({user: f"p-{user}" for user in passwords.users()})
        if each["kind"] == "Secret"
    }
    server = secrets[("berth-system", passwords.SERVER_SECRET)]
    issuer, seed = server.pop(passwords.ISSUER_VARIABLE), secrets[("berth-system", "nats-user-node-authenticator")]
    assert nkeys.from_seed(seed.pop(passwords.SEED_KEY).encode()).public_key.decode() == issuer
    assert server == {variable: f"p-{user}" for user, variable in passwords.users().items()}
    (container,) = pod_of(workload_named("nats"))["containers"]
    assert container["envFrom"] == [{"secretRef": {"name": passwords.SERVER_SECRET}}]
    for each in WORKLOADS:
        if name_of(each) not in ("nats", AGENT):
            name = name_of(each)
            secret = projected(each, "bus")[0]["secret"]
            signs = [{"key": passwords.SEED_KEY, "path": "signing-seed"}] if name == passwords.AUTHENTICATOR else []
            assert secret == {
                "name": passwords.user_secret(name),
                "items": [{"key": passwords.USER_KEY, "path": "nats-password"}, *signs],
            }
            assert secrets[(each["metadata"]["namespace"], secret["name"])] == {passwords.USER_KEY: f"p-{name}"}


def test_an_agent_shows_a_token_for_the_bus_alone(house: Any) -> None:
    """What it is for is what node-authenticator asks about, and so is whose it is."""
    workload = workload_named(AGENT)
    token = projected(workload, "bus")[0]["serviceAccountToken"]
    settings = house.settings("node-authenticator")()
    assert token["audience"] == settings.token_audience
    assert token["expirationSeconds"] == settings.session_s
    account = f"{workload['metadata']['namespace']}/{pod_of(workload)['serviceAccountName']}"
    assert account == settings.agent_account


def test_no_pod_sees_a_secret_that_is_not_its_own() -> None:
    allowed = {"nats": {"nats-passwords", "nats-tls"}, AGENT: set()}
    for each in WORKLOADS:
        text = json.dumps(pod_of(each))
        seen = set(re.findall(r'"secretName": "([^"]+)"|"secret(?:Ref)?": \{"name": "([^"]+)"', text))
        assert "secretKeyRef" not in text
        assert {"".join(names) for names in seen} == allowed.get(name_of(each), {f"nats-user-{name_of(each)}"})


def test_passwords_are_never_numbers_to_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    passwords = tool("nats_passwords")
    assert passwords.main() == 0
    printed = json.loads(capsys.readouterr().out)
    values = [value for each in printed["items"] for value in each.get("stringData", {}).values()]
    keys = {value for value in values if re.fullmatch(r"S?A[A-Z2-7]{55,56}", value)}
    assert len(keys) == 2, "the key that node-authenticator signs with, and its public half"
    assert all(re.fullmatch(r"p[0-9a-f]{48}", value) for value in values if value not in keys)
    assert len(set(values) - keys) == len(passwords.users())


def test_no_secret_is_kept_here() -> None:
    assert not of_kind("Secret")
    assert not any("secretGenerator" in path.read_text() for path in K8S.rglob("kustomization.yaml"))
    assert ".certs/" in (ROOT / ".gitignore").read_text().splitlines()


@pytest.mark.parametrize("component", ["nats", "nats-cluster"])
@needs_openssl
def test_the_server_accepts_its_configuration(component: str, tmp_path: Path) -> None:
    """The files as they lie in the pod, passwords and certificate as the tools make them."""
    passwords, certs = tool("nats_passwords"), tool("certs")
    environment = {variable: passwords.password() for variable in passwords.users().values()}
    environment[passwords.ISSUER_VARIABLE] = passwords.account_key()[1]
    for key, value in certs.manifests(certs.Authority(tmp_path / "ca"), [], 1, cert_manager=False)[-1][
        "stringData"
    ].items():
        (tmp_path / key).write_text(value)
    config = (K8S / "components" / component / "nats.conf").read_text()
    (tmp_path / "nats.conf").write_text(
        config.replace("/etc/nats-tls", str(tmp_path)).replace("$POD_NAME", "nats-0").replace("/data", str(tmp_path))
    )
    shutil.copy(K8S / "components/nats/users.conf", tmp_path)
    command = [find_server(), "-t", "-c", str(tmp_path / "nats.conf")]
    told = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=told)
    assert done.returncode == 0, done.stderr


@needs_openssl
def test_the_certificate_names_every_address_of_the_manifests(tmp_path: Path) -> None:
    certs = tool("certs")
    items = certs.manifests(certs.Authority(tmp_path), ["192.0.2.7", "nodes.example"], 30, cert_manager=False)
    files = next(each for each in items if each["metadata"]["name"] == "nats-tls")["stringData"]
    (tmp_path / "tls.crt").write_text(files["tls.crt"])
    names = ssl._ssl._test_decode_cert(str(tmp_path / "tls.crt"))["subjectAltName"]  # type: ignore[attr-defined]
    alternatives = {name for _, name in names}
    wanted = {
        "192.0.2.7",
        "nodes.example",
        "127.0.0.1",
        "localhost",
        "nats.berth-system.svc",
        "*.nats.berth-system.svc",
    }
    assert wanted <= alternatives
    issued = next(yaml.safe_load_all((K8S / "components/cert-manager/certificate.yaml").read_text().split("---")[1]))
    assert {*issued["spec"]["dnsNames"], *issued["spec"]["ipAddresses"]} == set(certs.server_names())


@needs_openssl
def test_an_authority_is_made_once_and_kept_private(tmp_path: Path) -> None:
    certs = tool("certs")
    folder = tmp_path / "ca"
    first = certs.Authority(folder)
    kept = first.key.read_text(), first.certificate.read_text()
    again = certs.Authority(folder)
    assert (again.key.read_text(), again.certificate.read_text()) == kept
    assert first.key.stat().st_mode & 0o077 == 0
    for secret in certs.manifests(again, [], 1, cert_manager=False):
        assert kept[0] not in json.dumps(secret)
    handed = certs.manifests(again, [], 1, cert_manager=True)[-1]
    assert handed["stringData"] == {"tls.key": kept[0], "tls.crt": kept[1]}


@needs_openssl
@pytest.mark.parametrize("told", [["--name", "a b"], ["--name", ""], ["--days", "0"], ["--name", "x,DNS:evil"]])
def test_a_bad_argument_is_named(told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tool("certs").main(["--folder", str(tmp_path), *told])
    assert ended.value.code == 2
    assert told[0] in capsys.readouterr().err
