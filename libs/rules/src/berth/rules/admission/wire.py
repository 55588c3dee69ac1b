"""AdmissionReview (admission.k8s.io/v1) as bytes."""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from berth.contracts.base import Problem
from berth.rules.admission.seam import Answer, Request

BYTES_MAX: Final = 8 << 20
"""Two objects of the size that the API server takes, and their frame."""
_ENCODER: Final = msgspec.json.Encoder()


class _Review(msgspec.Struct, frozen=True):
    request: Request


_DECODER: Final = msgspec.json.Decoder(_Review)


def read_review(body: bytes) -> Request | Problem:
    """The request of a review, or what is wrong with it. Never raises."""
    if len(body) > BYTES_MAX:
        return Problem(field="", message=f"is too large (at most {BYTES_MAX} bytes)")
    try:
        return _DECODER.decode(body).request
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        return Problem(field="request", message=f"is not readable: {str(error)[:200]}")
    except (RecursionError, UnicodeError):
        return Problem(field="request", message="is not readable: nested too deeply or not UTF-8")


def write_answer(uid: str, answer: Answer) -> bytes:
    """The review that is sent back. Raises nothing: a patch that JSON cannot carry is left out, with a warning."""
    response: dict[str, Any] = {"uid": uid, "allowed": answer.is_allowed}
    if answer.warnings:
        response["warnings"] = list(answer.warnings)
    if answer.refusals:
        # Who creates pods tells refusals apart by this: 403 is not tried again in place.
        causes = [{"reason": each.rule, "field": each.field, "message": each.message} for each in answer.refusals]
        response["status"] = {
            "code": 403,
            "reason": "Forbidden",
            "message": answer.message,
            "details": {"causes": causes},
        }
    elif answer.patch:
        try:
            patch = _ENCODER.encode(answer.patch)
        except (UnicodeError, RecursionError):
            response["warnings"] = [*answer.warnings, "nothing was changed: the object cannot be written as JSON"]
        else:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(patch).decode()
    return _ENCODER.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
