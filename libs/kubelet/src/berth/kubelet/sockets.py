"""Unix sockets: what is left of a dead server is removed, what a living one serves is not."""

from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

PATH_BYTES_MAX = 107
"""The longest path that the kernel lets a socket have, without the byte that ends it."""


class SocketUnusable(OSError):  # noqa: N818 - the name is the finding
    """A server cannot listen at a path; the message says why."""


def make_free(path: Path) -> None:
    """Make the folder of a socket, and remove a socket there that nobody serves.

    Raises:
        SocketUnusable: the path is too long, is no socket, or is served by somebody.
    """
    if len(os.fsencode(path)) > PATH_BYTES_MAX:
        raise SocketUnusable(f"{path}: a socket's path has at most {PATH_BYTES_MAX} bytes")
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise SocketUnusable(f"{path}: there is something that is no socket")
    if _is_served(path):
        raise SocketUnusable(f"{path}: another process serves it")
    path.unlink(missing_ok=True)


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of what lies there, None where nothing does: another server's socket is another one."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except OSError as error:
            return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
        return True
