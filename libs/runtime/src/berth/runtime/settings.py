"""Settings of a service, from the environment.

Field `http_port` of the settings type is read from `BERTH_HTTP_PORT`, converted to the type of the field and checked
against its limits. Everything that is wrong is reported at once, naming the variable and what would be right. A
variable that is empty counts as not set, and variables of other services are ignored, so that one environment can serve
them all.
"""

import math
import os
import socket
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar, Union

import msgspec
from msgspec import Meta

PREFIX: Final = "BERTH_"
VALUE_LENGTH_MAX: Final = 65_536
_SHOWN_LENGTH_MAX: Final = 60
_INTEGER_MAX: Final = 2**63 - 1
_COLLECTIONS: Final = (list, tuple, set, frozenset)

S = TypeVar("S", bound=msgspec.Struct)

Port = Annotated[int, Meta(ge=0, le=65_535)]
Seconds = Annotated[float, Meta(gt=0, le=86_400)]


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of every service. Secrets are given as paths of files, so that no manifest shows them."""

    nats_url: Annotated[str, Meta(min_length=1, description="NATS servers, separated by commas")] = (
        "nats://127.0.0.1:4222"
    )
    nats_user: Annotated[str, Meta(description="NATS user")] = ""
    nats_password_file: Annotated[str, Meta(description="file that holds the password of the NATS user")] = ""
    nats_creds_file: Annotated[str, Meta(description="NATS credentials file (JWT and nkey seed)")] = ""
    nats_ca_file: Annotated[str, Meta(description="CA certificates that the NATS servers are checked against")] = ""
    nats_domain: Annotated[
        str, Meta(description="JetStream domain, for a user whose account is not that of the streams")
    ] = ""
    nats_replicas: Annotated[Literal[1, 3, 5], Meta(description="copies of every stream")] = 1
    nats_read_pause_s: Annotated[
        float,
        Meta(
            ge=0, le=1, description="pause after a read from the bus for each message, to wake up less often under load"
        ),
    ] = 0.0
    http_host: Annotated[str, Meta(description="address for health and metrics")] = "127.0.0.1"
    http_port: Annotated[Port, Meta(description="port for health and metrics; 0 takes a free one")] = 0
    port_file: Annotated[str, Meta(description="file to write the port to, once it is listened on")] = ""
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="least important lines to log")
    ] = "info"
    log_format: Annotated[
        Literal["auto", "json", "pretty"], Meta(description="auto: pretty on a terminal, JSON elsewhere")
    ] = "auto"
    instance: Annotated[str, Meta(max_length=253, description="name of this replica, unique among all")] = ""
    drain_s: Annotated[Seconds, Meta(description="how long a stopping service may finish its work, in seconds")] = 10.0
    heartbeat_timeout_s: Annotated[Seconds, Meta(description="silence after which the process counts as dead")] = 30.0
    exit_with_parent: Annotated[bool, Meta(description="stop when the process that started this one is gone")] = False

    def instance_or_default(self) -> str:
        """The name given, or host name and process id: in Kubernetes the host name is the pod's."""
        return self.instance or f"{socket.gethostname()}-{os.getpid()}"

    def inbox(self) -> str:
        """What inboxes on the bus carry behind the service's name; nothing, unless its replicas differ in rights."""
        return ""


class SettingsError(Exception):
    """Some variables are unusable; one sentence for each, naming it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def load_settings(settings_type: type[S], environ: Mapping[str, str]) -> S:
    """The settings of this environment. Raises SettingsError with every problem found.

    Lists take values separated by commas; mappings and nested structs take JSON.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in msgspec.structs.fields(settings_type):
        variable = variable_of(field.name)
        raw = environ.get(variable, "").strip()
        if not raw:
            if field.required:
                problems.append(f"{variable} is not set{_about(field)}")
            continue
        try:
            values[field.name] = _read(raw, field.type)
        except (ValueError, OverflowError) as error:
            problems.append(f"{variable}={_shown(raw)}: {_reason(error)}{_about(field)}")
    if problems:
        raise SettingsError(problems)
    try:
        return settings_type(**values)
    except (ValueError, TypeError) as error:  # __post_init__: fields that don't fit together
        raise SettingsError([str(error)]) from error


def variable_of(field: str) -> str:
    """The environment variable of a field."""
    return PREFIX + field.upper()


def _read(raw: str, kind: Any) -> Any:
    if len(raw) > VALUE_LENGTH_MAX:
        raise ValueError(f"is too long ({len(raw)} characters, at most {VALUE_LENGTH_MAX})")
    bare = _bare(kind)
    if bare in _COLLECTIONS:
        value = msgspec.convert([part.strip() for part in raw.split(",") if part.strip()], kind, strict=False)
    elif bare is dict or (isinstance(bare, type) and issubclass(bare, msgspec.Struct)):
        value = msgspec.json.decode(raw, type=kind)
    else:
        value = msgspec.convert(_word(raw, bare), kind, strict=False)
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be a finite number")
    if isinstance(value, int) and abs(value) > _INTEGER_MAX:
        raise ValueError("is too large")
    return value


def _word(raw: str, bare: Any) -> str:
    """Spellings of booleans that people use and msgspec does not know."""
    if bare is bool:
        return {"yes": "true", "on": "true", "no": "false", "off": "false"}.get(raw.lower(), raw)
    return raw


def _bare(kind: Any) -> Any:
    """The type without Annotated and Optional: `list` for `Annotated[list[str] | None, ...]`."""
    origin = typing.get_origin(kind)
    if origin is Annotated:
        return _bare(typing.get_args(kind)[0])
    if origin in (Union, types.UnionType):
        rest = [member for member in typing.get_args(kind) if member is not type(None)]
        return _bare(rest[0]) if len(rest) == 1 else kind
    return origin or kind


def _reason(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def _shown(raw: str) -> str:
    return repr(raw if len(raw) <= _SHOWN_LENGTH_MAX else raw[:_SHOWN_LENGTH_MAX] + "...")


def _about(field: msgspec.structs.FieldInfo) -> str:
    """What the variable is for and what it is when left alone, so that the reader knows what to do."""
    kind: Any = field.type
    text = ""
    if typing.get_origin(kind) is Annotated:
        text = next((meta.description for meta in kind.__metadata__ if getattr(meta, "description", None)), "")
    hints = [text] if text else []
    if _bare(kind) is Literal:
        choices = typing.get_args(typing.get_args(kind)[0] if typing.get_origin(kind) is Annotated else kind)
        hints.append("one of " + ", ".join(str(choice) for choice in choices))
    if not field.required and field.default is not msgspec.NODEFAULT:
        hints.append(f"default {field.default!r}")
    return f" ({'; '.join(hints)})" if hints else ""
