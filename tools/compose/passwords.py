"""Give each user of the bus a random password at the first start of compose.yaml; later starts leave them alone.

Usage: passwords.py USERS_CONF FOLDER. FOLDER/nats/passwords.env holds them all, as variables of the server's
environment; FOLDER/<user>/password holds one, where there is such a folder. Each of these folders is a volume, so that
a service sees no password but its own. Python's standard library only: it runs in the image of the bus.
"""

from __future__ import annotations

import re
import secrets
import sys
from pathlib import Path


def main(users_conf: Path, folder: Path) -> int:
    """Write what is missing."""
    users = dict(re.findall(r'user: "([^"]+)", password: \$(\w+)', users_conf.read_text()))
    kept = folder / "nats" / "passwords.env"
    known = dict(line.split("=", 1) for line in kept.read_text().splitlines()) if kept.is_file() else {}
    # The server reads a value that looks like a number as one: hence the letter in front.
    passwords = {variable: known.get(variable) or f"p{secrets.token_hex(24)}" for variable in users.values()}
    for user, variable in users.items():
        if (folder / user).is_dir():
            _write(folder / user / "password", passwords[variable] + "\n")
    _write(kept, "".join(f"{variable}={value}\n" for variable, value in passwords.items()))
    return 0


def _write(path: Path, text: str) -> None:
    """Whole or not at all: what is killed in between starts again."""
    half = path.with_suffix(".new")
    half.write_text(text)
    half.replace(path)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
