"""Structural schemas of custom resources: prune, default, validate in one walk.

Follows what the API server does with `openAPIV3Schema`: fields it does not know are dropped unless preserved,
defaults are filled in, types, enumerations, bounds and required fields are checked, and every error names its field.
CEL rules (`x-kubernetes-validations`) are not evaluated.
"""

import re
from typing import Any

from berth.simcluster.store.objects import Json, decode, encode
from berth.simcluster.store.status import Cause, bad_value, required, shown, unsupported

_MISSING = object()
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_RANGES = {"int32": 1 << 31, "int64": 1 << 63}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "integer": (int,),
}


def _is_type(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _PYTHON_TYPES.get(kind, (object,)))


class Schema:
    """One node of a compiled schema."""

    def __init__(self, spec: Json, *, root: bool = False) -> None:
        """Compile. `root`: `apiVersion`, `kind` and `metadata` belong to every object and are left alone."""
        self._root = root
        self._type: str = spec.get("type", "")
        self._properties = {name: Schema(sub) for name, sub in (spec.get("properties") or {}).items()}
        extra = spec.get("additionalProperties")
        self._additional = Schema(extra) if isinstance(extra, dict) else None
        self._keep_all = bool(spec.get("x-kubernetes-preserve-unknown-fields")) or extra is True
        self._embedded = bool(spec.get("x-kubernetes-embedded-resource"))
        items = spec.get("items")
        self._items = Schema(items) if isinstance(items, dict) else None
        self._int_or_string = bool(spec.get("x-kubernetes-int-or-string"))
        self._nullable = bool(spec.get("nullable"))
        self._default: Any = spec.get("default", _MISSING)
        self._required: list[str] = list(spec.get("required") or ())
        self._enum: list[Any] = list(spec.get("enum") or ())
        self._format: str = spec.get("format", "")
        self._pattern = re.compile(spec["pattern"]) if spec.get("pattern") else None
        self._bounds = {name: spec[name] for name in _CHECKS if spec.get(name) is not None}
        self._exclusive = (bool(spec.get("exclusiveMinimum")), bool(spec.get("exclusiveMaximum")))
        self._all_of = [Schema(sub) for sub in spec.get("allOf") or ()]
        self._any_of = [Schema(sub) for sub in spec.get("anyOf") or ()]
        self._one_of = [Schema(sub) for sub in spec.get("oneOf") or ()]
        self._not = Schema(spec["not"]) if isinstance(spec.get("not"), dict) else None

    def admit(self, value: Any, path: str, causes: list[Cause]) -> Any:
        """The pruned and defaulted value; every broken rule is added to `causes`."""
        if value is None:
            if not self._nullable and self._type:
                causes.append(_type_cause(path, self._type, value))
            return None
        if self._int_or_string:
            if not (_is_type(value, "integer") or isinstance(value, str)):
                causes.append(_type_cause(path, "integer or string", value))
                return value
        elif self._type and not _is_type(value, self._type):
            causes.append(_type_cause(path, self._type, value))
            return value
        if isinstance(value, dict):
            value = self._object(value, path, causes)
        elif isinstance(value, list) and self._items is not None:
            each = self._items
            value = [each.admit(item, f"{path}[{index}]", causes) for index, item in enumerate(value)]
        self._check(value, path, causes)
        return value

    def _object(self, value: Json, path: str, causes: list[Cause]) -> Json:
        result: Json = {}
        known = self._properties
        prefix = f"{path}." if path else ""
        for name, item in value.items():
            if self._root and name in ("apiVersion", "kind", "metadata"):
                result[name] = item
            elif name in known:
                sub = known[name]
                if item is None and not sub._nullable:
                    continue  # the API server drops nulls where they are not allowed, then applies defaults
                result[name] = sub.admit(item, prefix + name, causes)
            elif self._additional is not None:
                result[name] = self._additional.admit(item, prefix + name, causes)
            elif self._keep_all or not self._type or (self._embedded and name in ("apiVersion", "kind", "metadata")):
                result[name] = item
        for name, sub in known.items():
            if name not in result and sub._default is not _MISSING:
                result[name] = sub.admit(decode(encode(sub._default)), prefix + name, causes)
        causes.extend(required(prefix + name) for name in self._required if name not in result)
        return result

    def _check(self, value: Any, path: str, causes: list[Cause]) -> None:
        if self._enum and value not in self._enum:
            causes.append(unsupported(path, value, self._enum))
        for name, bound in self._bounds.items():
            why = _CHECKS[name](value, bound, self._exclusive)
            if why:
                causes.append(bad_value(path, value, f"{path} in body {why}"))
        if isinstance(value, str):
            if self._pattern is not None and not self._pattern.search(value):
                causes.append(bad_value(path, value, f"{path} in body should match '{self._pattern.pattern}'"))
            if self._format == "date-time" and not _DATE_TIME.fullmatch(value):
                causes.append(bad_value(path, value, f"{path} in body must be of type date-time: {shown(value)}"))
        elif self._format in _RANGES and isinstance(value, int):
            limit = _RANGES[self._format]
            if not -limit <= value < limit:
                causes.append(bad_value(path, value, f"{path} in body must be of type {self._format}"))
        self._combine(value, path, causes)

    def _combine(self, value: Any, path: str, causes: list[Cause]) -> None:
        for sub in self._all_of:
            sub.admit(value, path, causes)
        if self._any_of and not any(sub._holds(value) for sub in self._any_of):
            causes.append(bad_value(path, value, f"{path} in body must validate at least one schema (anyOf)"))
        if self._one_of and sum(sub._holds(value) for sub in self._one_of) != 1:
            causes.append(bad_value(path, value, f"{path} in body must validate one and only one schema (oneOf)"))
        if self._not is not None and self._not._holds(value):
            causes.append(bad_value(path, value, f"{path} in body must not validate the schema (not)"))

    def _holds(self, value: Any) -> bool:
        causes: list[Cause] = []
        self.admit(value, "", causes)
        return not causes


def _type_cause(path: str, kind: str, value: Any) -> Cause:
    return Cause(
        "FieldValueTypeInvalid",
        f"Invalid value: {shown(value)}: {path} in body must be of type {kind}: {shown(value)}",
        path,
    )


def _minimum(value: Any, bound: Any, exclusive: tuple[bool, bool]) -> str:
    if not isinstance(value, int | float) or (value > bound if exclusive[0] else value >= bound):
        return ""
    return f"should be greater than {'' if exclusive[0] else 'or equal to '}{bound}"


def _maximum(value: Any, bound: Any, exclusive: tuple[bool, bool]) -> str:
    if not isinstance(value, int | float) or (value < bound if exclusive[1] else value <= bound):
        return ""
    return f"should be less than {'' if exclusive[1] else 'or equal to '}{bound}"


def _sized(kind: type, least: bool, what: str) -> Any:
    def check(value: Any, bound: Any, exclusive: tuple[bool, bool]) -> str:
        if not isinstance(value, kind) or (len(value) >= bound if least else len(value) <= bound):  # type: ignore[arg-type]
            return ""
        return f"should {'have at least' if least else 'have at most'} {bound} {what}"

    return check


_CHECKS: dict[str, Any] = {
    "minimum": _minimum,
    "maximum": _maximum,
    "minLength": _sized(str, True, "chars"),
    "maxLength": _sized(str, False, "chars"),
    "minItems": _sized(list, True, "items"),
    "maxItems": _sized(list, False, "items"),
    "minProperties": _sized(dict, True, "properties"),
    "maxProperties": _sized(dict, False, "properties"),
}
