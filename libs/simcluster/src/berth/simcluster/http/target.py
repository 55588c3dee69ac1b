"""From a request line to what it is about."""

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from berth.simcluster.store import Path

QUERY_FIELDS_LIMIT = 50


class Target(NamedTuple):
    """The object or collection of a request, and its query."""

    path: Path
    query: dict[str, str]

    @property
    def watch(self) -> bool:
        """`?watch=1` in any of its spellings."""
        return self.query.get("watch", "") in ("1", "true", "True")

    @property
    def dry_run(self) -> bool:
        """`?dryRun=All`."""
        return bool(self.query.get("dryRun"))


def parse_target(raw: str) -> Target | None:
    """The target of an API path; None for every other path (discovery, health, `/sim`)."""
    text, _, query = raw.partition("?")
    parts = text.split("/")
    if len(parts) < 4 or parts[0]:
        return None
    if "%" in text:
        parts = [unquote(part) for part in parts]
    if parts[1] == "api" and parts[2] == "v1":
        path = _path("", "v1", parts[3:])
    elif parts[1] == "apis" and len(parts) > 4:
        path = _path(parts[2], parts[3], parts[4:])
    else:
        return None
    if path is None:
        return None
    return Target(path, parse_query(query) if query else {})


def parse_query(query: str) -> dict[str, str]:
    """The query as a map; of a repeated field the last one counts. Raises ValueError when there are too many."""
    return dict(parse_qsl(query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_LIMIT))


def _path(group: str, version: str, parts: list[str]) -> Path | None:
    if parts[-1] == "":
        parts = parts[:-1]
    if not parts or "" in parts:
        return None
    namespace = ""
    own = not group and len(parts) == 3 and parts[2] in ("status", "finalize")
    if parts[0] == "namespaces" and len(parts) > 2 and not own:
        namespace, parts = parts[1], parts[2:]
    if len(parts) > 3:
        return None
    plural, name, subresource = (*parts, "", "")[:3]
    return Path(group, version, plural, namespace, name, subresource)
