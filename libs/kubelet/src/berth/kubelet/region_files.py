"""The folder in which containers with an isolated GPU have their files: `CONTAINERS/<pod uid>_<container>/*.cache`.

Files are opened to be read and nothing else, are looked at no further than their layout goes, and links are not
followed: a container owns its folder, and could point anywhere on the node.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from berth.contracts.base import Problem
from berth.kubelet.core.regions import BYTES_MAX, NotReady, Region, read_region

CONTAINERS: Final = Path("/usr/local/vgpu/containers")
FOLDERS_MAX: Final = 4096
FILES_MAX: Final = 64
"""Entries of one container's folder that are looked at; HAMi-core and its library make two."""
TRIES: Final = 3
"""How often a torn file is read before it counts as one."""
_SUFFIX: Final = ".cache"


class Found(NamedTuple):
    """The file of one container."""

    pod_uid: str
    container: str
    region: Region


class Look(NamedTuple):
    """What one look found, and which files could not be read; a container that is not ready is in neither."""

    found: tuple[Found, ...] = ()
    problems: tuple[Problem, ...] = ()


def look(root: Path = CONTAINERS) -> Look:
    """Read the files of all containers. A root that is not there has none. A problem's field is the file's place
    below the root, and the part of it."""
    found: list[Found] = []
    problems: list[Problem] = []
    try:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(root, flags)
    except FileNotFoundError:
        return Look()
    except OSError as error:
        return Look(problems=(Problem(field=str(root), message=error.strerror or "cannot be opened"),))
    try:
        names = sorted(os.listdir(descriptor))
        if len(names) > FOLDERS_MAX:
            problems.append(Problem(field=str(root), message=f"more than {FOLDERS_MAX} entries: the rest is not read"))
        for name in names[:FOLDERS_MAX]:
            pod_uid, _, container = name.partition("_")
            if not (pod_uid and container):
                continue
            region = _in_folder(descriptor, name)
            if isinstance(region, Region):
                found.append(Found(pod_uid, container, region))
            elif region is not None:
                problems.append(region)
    except OSError as error:
        problems.append(Problem(field=str(root), message=error.strerror or "cannot be listed"))
    finally:
        os.close(descriptor)
    return Look(tuple(found), tuple(problems))


def _in_folder(root: int, name: str) -> Region | Problem | None:
    """What the file in a container's folder says; None while there is none that says something."""
    try:
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    except OSError as error:
        return _problem(_shown(name), error)
    try:
        files = sorted(each for each in os.listdir(folder)[:FILES_MAX] if each.endswith(_SUFFIX))
        return _in_file(folder, files[0], _shown(f"{name}/{files[0]}")) if files else None
    except OSError as error:
        return _problem(_shown(name), error)
    finally:
        os.close(folder)


def _in_file(folder: int, file: str, field: str) -> Region | Problem | None:
    read: Region | NotReady | Problem = NotReady("is not there")
    for _ in range(TRIES):
        content = _content(folder, file, field)
        if isinstance(content, Problem):
            return content
        read = read_region(content, field)
        if not isinstance(read, Problem):
            break
    return None if isinstance(read, NotReady) else read


def _content(folder: int, file: str, field: str) -> bytes | Problem:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        return _problem(field, error) or b""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return Problem(field=field, message="is no ordinary file")
        if status.st_size > BYTES_MAX:
            return Problem(field=field, message=f"is larger than any layout: {status.st_size} bytes")
        return os.pread(descriptor, BYTES_MAX, 0)
    except OSError as error:
        return _problem(field, error) or b""
    finally:
        os.close(descriptor)


def _shown(name: str) -> str:
    """A name that a container has chosen, as text: what is no UTF-8 in it could not be sent to anybody."""
    return name.encode(errors="backslashreplace").decode()


def _problem(field: str, error: OSError) -> Problem | None:
    """What keeps a file from being read; None where it is gone, as files of containers that end are."""
    gone = isinstance(error, FileNotFoundError | NotADirectoryError)
    return None if gone else Problem(field=field, message=error.strerror or "cannot be read")
