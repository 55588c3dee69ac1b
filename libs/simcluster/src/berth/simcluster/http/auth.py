"""Bearer tokens from a file. Who has one may do everything; there are no roles here."""

from pathlib import Path

from berth.simcluster.store.status import ApiError


class Tokens:
    """Token to user. Without a file everybody is let in."""

    def __init__(self, users: dict[str, str] | None) -> None:
        """None: no check."""
        self._users = users

    @classmethod
    def read(cls, file: Path | None) -> "Tokens":
        """Lines `token,user`, further columns ignored. Raises ValueError naming file and line."""
        if file is None:
            return cls(None)
        users: dict[str, str] = {}
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            token, comma, rest = line.partition(",")
            user = rest.partition(",")[0].strip().strip('"')
            if not comma or not token.strip() or not user:
                raise ValueError(f"{file}:{number}: expected token,user")
            users[token.strip()] = user
        if not users:
            raise ValueError(f"{file}: no token in it")
        return cls(users)

    def user(self, header: str) -> str:
        """The user of an `Authorization` header. Raises 401."""
        if self._users is None:
            return "system:anonymous"
        scheme, _, token = header.partition(" ")
        user = self._users.get(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        return user
