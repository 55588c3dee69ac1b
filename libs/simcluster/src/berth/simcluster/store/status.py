"""Kubernetes' error answers: one exception inside the store, one `Status` object on the wire.

The texts and reasons are those of the API server, because clients (and people) match on them. The exception never
leaves the store: its public calls turn it into a `Reply`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from berth.simcluster.store.objects import Json, encode

_KEPT_UNDER = {"nodes": "minions"}
MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


class Reply(NamedTuple):
    """An answer as it would go over the wire.

    HTTP status, JSON body, and after how many seconds to try again, if the server says so.
    """

    status: int
    body: bytes
    retry_after_s: int | None = None


class Cause(NamedTuple):
    """One field that was refused.

    The API server's reason (`FieldValueInvalid`, ...), the text, the path of the field.
    """

    reason: str
    message: str
    field: str


class ApiError(Exception):
    """A refused request. `details` is the `details` object of the Status."""

    def __init__(
        self, code: int, reason: str, message: str, details: Json | None = None, retry_after_s: int | None = None
    ) -> None:
        """Keep what the Status object needs."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after_s = retry_after_s

    def status(self) -> Json:
        """The `Status` object of this error."""
        return failure(self.code, self.reason, self.message, self.details)

    def reply(self) -> Reply:
        """The error as an answer."""
        return Reply(self.code, encode(self.status()), self.retry_after_s)


def failure(code: int, reason: str, message: str, details: Json | None = None) -> Json:
    """A `Status` object that says Failure."""
    body: Json = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        body["reason"] = reason
    if details:
        body["details"] = details
    body["code"] = code
    return body


def success(code: int, details: Json | None = None) -> Reply:
    """A `Status` object that says Success."""
    body: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        body["details"] = details
    if code != 200:
        body["code"] = code
    return Reply(code, encode(body))


def qualified(group: str, plural: str) -> str:
    """`pods`, or `podgroups.scheduling.sigs.k8s.io`: how the API server names a resource in texts."""
    return f"{plural}.{group}" if group else plural


def _details(group: str, plural: str, name: str) -> Json:
    details: Json = {"name": name} if name else {}
    if group:
        details["group"] = group
    details["kind"] = plural
    return details


def not_found(group: str, plural: str, name: str) -> ApiError:
    """404 for a named object."""
    return ApiError(404, "NotFound", f'{qualified(group, plural)} "{name}" not found', _details(group, plural, name))


def no_such_path() -> ApiError:
    """404 for a path that no resource serves."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(group: str, plural: str, name: str) -> ApiError:
    """409 for a create whose name is taken."""
    text = f'{qualified(group, plural)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", text, _details(group, plural, name))


def conflict(group: str, plural: str, name: str, why: str = MODIFIED) -> ApiError:
    """409: the object is not as the request assumed."""
    text = f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}'
    return ApiError(409, "Conflict", text, _details(group, plural, name))


def precondition(group: str, plural: str, key: str, field: str, wanted: str, found: str) -> ApiError:
    """409 for a uid or resource version given as a precondition; the text is the API server's storage error."""
    home = f"{group}/{plural}" if "." in group and not group.endswith(".k8s.io") else plural
    home = _KEPT_UNDER.get(plural, home)
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{home}/{key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}"
    )
    return conflict(group, plural, key.rpartition("/")[2], why)


def not_that_one(group: str, kind: str, name: str, field: str, wanted: str, found: str) -> ApiError:
    """409 for a delete whose precondition does not hold; it names the kind where others name the resource."""
    fate = "deleted and then recreated" if field == "UID" else "modified"
    why = (
        f"the {field} in the precondition ({wanted}) does not match the {field} in record ({found}). "
        f"The object might have been {fate}"
    )
    return conflict(group, kind, name, why)


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    """403 from admission."""
    text = f'{qualified(group, plural)} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", text, _details(group, plural, name))


def expired(message: str) -> ApiError:
    """410: the version asked for is no longer kept."""
    return ApiError(410, "Expired", message)


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422 naming every refused field."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: Json = {"name": name}
    if group:
        details["group"] = group
    details["kind"] = kind
    details["causes"] = [cause._asdict() for cause in causes]
    what = f"{kind}.{group}" if group else kind
    return ApiError(422, "Invalid", f'{what} "{name}" is invalid: {joined}', details)


def bad_value(field: str, value: Any, why: str) -> Cause:
    """A field whose value breaks a rule."""
    return Cause("FieldValueInvalid", f"Invalid value: {shown(value)}: {why}", field)


def required(field: str, why: str = "") -> Cause:
    """A field that is missing."""
    return Cause("FieldValueRequired", "Required value" + (f": {why}" if why else ""), field)


def unsupported(field: str, value: Any, allowed: Sequence[Any]) -> Cause:
    """A value that is not one of an enumeration."""
    names = ", ".join(shown(each) for each in allowed)
    return Cause("FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {names}", field)


def shown(value: Any) -> str:
    """A value as the API server prints it in errors, cut so that a huge one does not fill the answer."""
    text = encode(value).decode(errors="replace")
    return text if len(text) <= 200 else text[:200] + "..."
