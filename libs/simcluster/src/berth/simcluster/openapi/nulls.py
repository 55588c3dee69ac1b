"""Nulls of a body of a built-in kind, taken away as the API server does it while it decodes."""

from berth.simcluster.openapi.schemas import name_of, schemas, without_nulls
from berth.simcluster.store.objects import EMPTY, Json, encode

_STATUS = "status"
"""Conditions keep the fields that the API server itself writes there as null."""


def drop_nulls(group: str, version: str, kind: str, data: Json) -> None:
    """Change an object in place, at its top level; one without nulls costs only the look."""
    name = name_of(group, version, kind)
    if not name:
        return
    fields = schemas()[name]["properties"]
    for field in list(data):
        value = data[field]
        if isinstance(value, dict | list) and b"null" in encode(value):
            data[field] = without_nulls(value, fields.get(field, EMPTY), fields_too=field != _STATUS)
