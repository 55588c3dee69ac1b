"""Fetch uv from its wheel on the Python package index, with nothing but the standard library.

Usage: fetch_uv.py VERSION FOLDER. The wheel's SHA-256, as the index tells it, is checked before anything is unpacked.
The index can be replaced by UV_INDEX_JSON (a URL with `{version}`), for machines that reach only a mirror.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import sys
import urllib.request
import zipfile
from pathlib import Path

INDEX = "https://pypi.org/pypi/uv/{version}/json"
TIMEOUT_S = 120


def main(version: str, folder: Path) -> int:
    """Fetch, check, unpack; 0 when the program is there."""
    url = os.environ.get("UV_INDEX_JSON", INDEX).format(version=version)
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as response:  # noqa: S310 - https, by the constant above
        files = json.load(response)["urls"]
    wheel = next((file for file in files if suits(file["filename"])), None)
    if wheel is None:
        print(f"no uv wheel for {platform.system()} {platform.machine()}: install uv by hand", file=sys.stderr)
        return 1
    print(f"fetching {wheel['filename']}", file=sys.stderr)
    with urllib.request.urlopen(wheel["url"], timeout=TIMEOUT_S) as response:  # noqa: S310
        data = response.read()
    if hashlib.sha256(data).hexdigest() != wheel["digests"]["sha256"]:
        print("the wheel is not what the index promised", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if name.endswith("/scripts/uv"):
                target = folder / "uv"
                target.write_bytes(archive.read(name))
                target.chmod(0o755)
                return 0
    print("the wheel holds no program", file=sys.stderr)
    return 1


def suits(filename: str) -> bool:
    """Whether a wheel is for this machine."""
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    if platform.system() == "Darwin":
        return "macosx" in filename and ("arm64" if machine == "aarch64" else machine) in filename
    libc = "musllinux" if not platform.libc_ver()[0] else "manylinux"
    return libc in filename and filename.endswith(f"_{machine}.whl")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
