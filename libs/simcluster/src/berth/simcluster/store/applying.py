"""What each manager applied last, so that a field it leaves out of its next apply goes away, as on a real server.

Stands in for managed fields: ownership is by what was applied, not shared, and there are no conflicts (every apply is
forced). A list is one value.
"""

from typing import Any

from berth.simcluster.store.objects import Json

REMEMBERED_MAX = 50_000


class Applied:
    """The last apply by object and manager; the oldest are forgotten."""

    def __init__(self) -> None:
        """Nothing was applied yet."""
        self._last: dict[tuple[str, str], Json] = {}

    def patch(self, uid: str, manager: str, body: Json) -> Json:
        """The merge patch that this apply of an object comes to; null removes what was applied before."""
        return _with_removals(body, self._last.get((uid, manager), {}))

    def remember(self, uid: str, manager: str, body: Json) -> None:
        """An apply came true."""
        self._last.pop((uid, manager), None)
        self._last[uid, manager] = body
        if len(self._last) > REMEMBERED_MAX:
            del self._last[next(iter(self._last))]


def _with_removals(new: Json, last: Json) -> Json:
    patch: Json = dict.fromkeys(last.keys() - new.keys())
    for name, value in new.items():
        before: Any = last.get(name)
        patch[name] = _with_removals(value, before) if isinstance(value, dict) and isinstance(before, dict) else value
    return patch
