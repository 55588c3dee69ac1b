#!/usr/bin/env -S python3 -IS
"""Is the program of this container ready? Exit code 0 when it answers 200.

Usage: healthy.py [OPTION...] [URL]; else port `BERTH_HTTP_PORT` of loopback and /readyz. It runs every few seconds in
every container, so it imports next to nothing: a bare socket takes a third of the CPU time of urllib. In the image of
the bus it is also called `wget`, because probes written for the usual image ask with that; options are not looked at.
"""

import os
import socket
import sys

TIMEOUT_S = 3.0


def status(host: str, port: int, path: str) -> str:
    """The status line. Raises OSError when nobody answers in time."""
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        return connection.makefile("r", encoding="latin-1").readline().strip()


def main(arguments: list[str]) -> int:
    """0 when the answer is 200; else 1, with the answer printed, for `docker inspect`."""
    if arguments:
        address, _, path = arguments[-1].removeprefix("http://").partition("/")
        host, _, port = address.partition(":")
    else:
        host, port, path = "127.0.0.1", os.environ["BERTH_HTTP_PORT"], "readyz"
    try:
        answer = status(host, int(port), f"/{path}")
    except (OSError, ValueError) as error:
        answer = str(error)
    print(answer)
    return 0 if answer.split()[1:2] == ["200"] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
