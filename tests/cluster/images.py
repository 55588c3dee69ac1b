"""Images for the node: Berth's own out of the Docker engine, and two made here from a binary each.

An archive is what `docker save` writes: layers as tar files, a config each, and a manifest.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

from tests.cluster.node import COPY_S, PAUSE_IMAGE, Node
from tests.cluster.space import run
from tests.deploy.engine import images as builder

from berth.testing.kube_server import find_binary

COREDNS_IMAGE = "example.test/coredns:1"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
NOT_IN_A_CLUSTER = ("simulated-api", "cli")


def of_binary(name: str, binary: Path) -> bytes:
    """The archive of an image that holds one static binary, and runs it as user 65532."""
    layer = _tar({binary.name: binary.read_bytes()}, 0o755)
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Entrypoint": [f"/{binary.name}"], "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    files = {"config.json": json.dumps(config), "manifest.json": json.dumps(manifest)}
    return _tar({"layer.tar": layer, **{path: text.encode() for path, text in files.items()}}, 0o644)


def _tar(files: dict[str, bytes], mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def berth_images() -> list[str]:
    """What `k8s/` needs, as `make images` calls them. Raises RuntimeError naming what is not built."""
    build = builder()
    found = [build.image(name) for name in build.names() if name not in NOT_IN_A_CLUSTER]
    if missing := [each for each in found if build.layers(each) is None]:
        raise RuntimeError(f"images not built: {', '.join(missing)}; run `make images`")
    return found


def load_helpers(node: Node) -> None:
    """Pause and CoreDNS."""
    node.load_image(of_binary(PAUSE_IMAGE, find_binary("pause")))
    node.load_image(of_binary(COREDNS_IMAGE, find_binary("coredns")))


def load_berth(node: Node) -> list[str]:
    """Hand Berth's images over to containerd; their names."""
    names = berth_images()
    path = node.space.home / "berth.tar"
    try:
        run("docker", "save", "-o", str(path), *names, timeout_s=COPY_S)
        node.load_image(path)
    finally:
        path.unlink(missing_ok=True)
    return names


def facts(names: list[str]) -> list[dict[str, Any]]:
    """Name and size in MB of each image."""
    build = builder()
    return [{"image": name, "mb": round(build.layers(name).size / 1e6)} for name in names]
