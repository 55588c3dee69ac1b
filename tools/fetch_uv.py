"""Fetch uv from its wheel on the Python package index, with nothing but the standard library.

Usage: fetch_uv.py VERSION FOLDER. The wheel's SHA-256, as the index gives it, is checked before anything is unpacked.
Another index can be named by UV_INDEX or PIP_INDEX_URL, as for uv and pip themselves.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from html import unescape
from pathlib import Path

INDEX = "https://pypi.org/simple"
ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
TIMEOUT_S = 120
ANCHOR = re.compile(r'<a[^>]*href="([^"]+)"[^>]*>([^<]+)</a>')


def main(version: str, folder: Path) -> int:
    """Fetch, check, unpack; 0 when the program is there."""
    index = os.environ.get("UV_INDEX") or os.environ.get("PIP_INDEX_URL") or INDEX
    try:
        page, kind, address = read(f"{index.rstrip('/')}/uv/", ACCEPT)
        wheel = find(files(page, kind, address), version)
        if wheel is None:
            print(f"no uv {version} for {platform.system()} {platform.machine()}: install uv by hand", file=sys.stderr)
            return 1
        name, url, digest = wheel
        print(f"fetching {name}", file=sys.stderr)
        data, _, _ = read(url, "*/*")
    except (urllib.error.URLError, OSError, ValueError) as error:
        print(f"uv cannot be fetched from {index}: {error}; install uv by hand", file=sys.stderr)
        return 1
    if hashlib.sha256(data).hexdigest() != digest:
        print("the wheel is not what the index promised", file=sys.stderr)
        return 1
    return unpack(data, folder)


def read(url: str, accept: str) -> tuple[bytes, str, str]:
    """Body, content type and final address of a page."""
    request = urllib.request.Request(url, headers={"Accept": accept})  # noqa: S310 - the index is the user's choice
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
        return response.read(), response.headers.get_content_type(), response.geturl()


def files(page: bytes, kind: str, address: str) -> list[tuple[str, str, str]]:
    """File name, URL and SHA-256 of everything on an index page, in its JSON or its HTML form."""
    if kind.endswith("+json"):
        found = json.loads(page)["files"]
        return [(f["filename"], urllib.parse.urljoin(address, f["url"]), f["hashes"].get("sha256", "")) for f in found]
    result = []
    for href, name in ANCHOR.findall(page.decode()):
        url, _, fragment = unescape(href).partition("#")
        result.append((name.strip(), urllib.parse.urljoin(address, url), fragment.removeprefix("sha256=")))
    return result


def find(candidates: list[tuple[str, str, str]], version: str) -> tuple[str, str, str] | None:
    """The wheel of this version for this machine."""
    return next((file for file in candidates if file[0].startswith(f"uv-{version}-") and suits(file[0])), None)


def suits(filename: str) -> bool:
    """Whether a wheel is for this machine."""
    machine = {"arm64": "aarch64", "AMD64": "x86_64"}.get(platform.machine(), platform.machine())
    if platform.system() == "Darwin":
        return "macosx" in filename and ("arm64" if machine == "aarch64" else machine) in filename
    libc = "manylinux" if platform.libc_ver()[0] else "musllinux"
    return libc in filename and filename.endswith(f"{machine}.whl")


def unpack(data: bytes, folder: Path) -> int:
    """Put the program into the folder."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if name.endswith("/scripts/uv"):
                folder.mkdir(parents=True, exist_ok=True)
                target = folder / "uv"
                target.write_bytes(archive.read(name))
                target.chmod(0o755)
                return 0
    print("the wheel holds no program", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
