from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from berth.bus import Bus, BusSettings
from berth.testing.nats_server import NatsServer


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=berth-test"
    names = "-addext subjectAltName=IP:127.0.0.1,DNS:localhost -addext basicConstraints=critical,CA:TRUE"
    subprocess.run([*make.split(), *names.split(), "-keyout", key, "-out", cert], check=True, capture_output=True)
    return key, cert


async def test_the_server_is_verified_against_the_given_authority(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    key, cert = certificate
    with NatsServer(config=f'tls {{ key_file: "{key}", cert_file: "{cert}" }}') as server:
        bus = await Bus.connect(BusSettings(url=server.url, ca_file=str(cert)), service="tls")
        await bus.ensure()
        assert bus.events().offer("berth.v1.evt.x.y", b"{}", id="1", type="t")
        await bus.events().drain()
        server.restart()
        await bus.ensure()
        await bus.close()
