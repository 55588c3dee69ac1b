"""Every service as a process, on a bus that knows what each may do: nothing is denied, and pods are placed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.control_plane import bound, cluster_file, environment, nothing_was_denied, refused, running
from tests.deploy.manifests import users_conf
from tests.deploy.tls_bus import config_of, make_certificates, needs_openssl

from berth.simcluster import SimSettings, serve
from berth.testing.nats_cluster import NAMES, NatsCluster
from berth.testing.nats_server import NatsServer

PASSWORD = "pw"


@pytest.mark.e2e
async def test_the_whole_control_plane_works_with_least_rights_on_the_bus(house: Any, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    settings = SimSettings(manifests=(cluster_file(tmp_path),))
    with NatsServer(config=users_conf(PASSWORD)) as server:
        async with serve(settings) as api:
            common = environment(server.url, tmp_path / "password", api.url)
            with running(house.services, common, tmp_path) as logs:
                pods = f"{api.url}/api/v1/namespaces/default/pods"
                await asyncio.gather(bound(pods, "works"), refused(pods, "waits"))
                nothing_was_denied(logs)


@pytest.mark.e2e
@pytest.mark.slow
@needs_openssl
async def test_the_whole_control_plane_outlives_each_of_three_servers_with_tls(house: Any, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path / "certificates")
    settings = SimSettings(manifests=(cluster_file(tmp_path),))
    with NatsCluster(config_of(certificates)) as cluster:
        async with serve(settings) as api:
            common = environment(cluster.url, certificates / "password", api.url)
            common |= {"BERTH_NATS_CA_FILE": str(certificates / "ca.crt"), "BERTH_NATS_REPLICAS": "3"}
            with running(house.services, common, tmp_path) as logs:
                pods = f"{api.url}/api/v1/namespaces/default/pods"
                await bound(pods, "at-first")
                for name in NAMES:
                    cluster[name].kill()
                    await bound(pods, f"without-{name}")
                    cluster[name].start()
                await refused(pods, "waits")
                nothing_was_denied(logs)
