"""From outside of the cluster, by TLS as the user `reader`: placement events as they come, and the `berth` command."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.cluster.cluster import Cluster
from tests.cluster.requirements import NODE_ADDRESS

URL = f"tls://{NODE_ADDRESS}:30422"
FOLLOWER = Path(__file__).parent / "follower.py"


class Outside:
    """A reader on this machine, which is no part of the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        home = cluster.space.home
        self._ca, self._password = home / "ca.crt", home / "reader"
        self._out, self._log = home / "events.jsonl", home / "follower.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Take certificate and password as the documentation says, and listen."""
        home = "/api/v1/namespaces/berth-system"
        self._ca.write_text(self._cluster.get(f"{home}/configmaps/berth-ca")["data"]["ca.crt"])
        password = self._cluster.get(f"{home}/secrets/nats-user-reader")["data"]["password"]
        self._password.write_text(base64.b64decode(password).decode())
        command = [sys.executable, str(FOLLOWER), URL, str(self._ca), str(self._password)]
        with self._out.open("wb") as out, self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=out, stderr=log)

    def close(self) -> None:
        """Stop listening."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def events(self) -> list[dict[str, Any]]:
        """All events so far, each once. Fails when the follower has ended."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the follower has ended:\n{self._log.read_text()}")
        lines = self._out.read_text().splitlines(keepends=True)
        found = (json.loads(line) for line in lines if line.endswith("\n"))
        return list({event["sequence"]: event for event in found}.values())

    def bound(self) -> Counter[str]:
        """How often each pod (by uid) was told to be bound."""
        return Counter(event["uid"] for event in self.events() if event["type"] == "placement.bound.v1")

    def berth(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The `berth` command."""
        environment = {
            "BERTH_NATS_URL": URL,
            "BERTH_NATS_CA_FILE": str(self._ca),
            "BERTH_NATS_USER": "reader",
            "BERTH_NATS_PASSWORD_FILE": str(self._password),
        }
        return self._cluster.berth(*arguments, environment=environment)

    def until_bound(self, pods: list[dict[str, Any]]) -> None:
        """Return once each of these pods was told to be bound, once."""
        uids = {pod["metadata"]["uid"] for pod in pods}
        self._cluster.until(lambda: uids <= set(self.bound()), f"events of {len(uids)} pods outside of the cluster")
        again = {uid: times for uid, times in self.bound().items() if uid in uids and times != 1}
        assert not again, f"bound more than once: {again}"
