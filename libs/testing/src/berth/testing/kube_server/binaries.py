"""Where the binaries of Kubernetes are. They are tools for testing, had by `make e2e-assets`; this only looks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

KUBE_VERSION = "v1.34.10"
"""The version that `tools/kube` builds."""


class KubeMissingError(RuntimeError):
    """A binary is not on this machine; the text says how to get it."""


def folders() -> list[Path]:
    """Where to look, best first: `KUBEBUILDER_ASSETS`, then what `make e2e-assets` has built."""
    found = []
    if os.environ.get("KUBEBUILDER_ASSETS"):
        found.append(Path(os.environ["KUBEBUILDER_ASSETS"]))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return [*found, cache / "berth" / "kube" / KUBE_VERSION / "bin"]


def find_binary(name: str) -> Path:
    """Path of a binary such as `kube-apiserver`. Raises KubeMissingError, saying what to do, when there is none."""
    for folder in folders():
        if os.access(folder / name, os.X_OK):
            return folder / name
    if name == "kubectl" and (own := shutil.which("kubectl")):
        return Path(own)
    raise KubeMissingError(
        f"no {name}: run `make e2e-assets` (or `tools/kube/assets.sh {name}`), or set KUBEBUILDER_ASSETS to its folder"
    )
