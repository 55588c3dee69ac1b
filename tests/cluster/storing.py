"""A pod whose claim waits for it gets a disk of its node, and its container reads what lies there."""

from __future__ import annotations

import secrets

from tests.cluster.cluster import Cluster
from tests.cluster.listening import Outside
from tests.cluster.placing import HOME, done, placed_by_berth, refusal

CLAIM = f"/api/v1/namespaces/{HOME}/persistentvolumeclaims/notes"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"


def store(cluster: Cluster, outside: Outside) -> None:
    """No disk, so it waits; then there is one."""
    folder, word = cluster.space.home / "disk", secrets.token_hex(8) + "\n"
    folder.mkdir()
    (folder / "note").write_text(word)
    cluster.apply("reader.yaml")
    told = cluster.until(lambda: refusal(cluster, "app=reader"), "the pod without a volume to be refused")
    assert NO_VOLUME in told, told
    cluster.report.step(f"pod with a claim of a local volume: pending, told `{told}`")
    cluster.apply("disk.yaml", PATH=str(folder))
    pods = cluster.until_running(HOME, "app=reader", 1)
    placed_by_berth(pods)
    outside.until_bound(pods)
    claim = cluster.get(CLAIM)
    assert (claim["spec"]["volumeName"], claim["status"]["phase"]) == ("disk", "Bound")
    cluster.until(lambda: cluster.kubectl("logs", "reader", "-n", HOME) == word, "what the container has read")
    cluster.report.step("pod with a claim: placed once a volume of the node was there, its container reads the disk")
    done(cluster, "reader")
    cluster.kubectl("delete", "pvc", "notes", "-n", HOME)
    cluster.kubectl("delete", "persistentvolume/disk", "storageclass/disks")
