"""An error in the shape its provider uses."""

from __future__ import annotations

from typing import Any

import msgspec

from .rules.rule import Problem, Traits

_GOOGLE_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}
_ANTHROPIC_TYPE = {
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def refusal(problem: Problem, traits: Traits) -> bytes:
    return msgspec.json.encode(_shape(problem, traits))


def _shape(problem: Problem, traits: Traits) -> dict[str, Any]:
    status, message = problem.status, problem.message
    match traits.wire:
        case "anthropic":
            kind = _ANTHROPIC_TYPE.get(status, problem.type)
            return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_sim"}
        case "gemini":
            return {"error": {"code": status, "message": message, "status": _GOOGLE_STATUS.get(status, "UNKNOWN")}}
        case "ollama":
            return {"error": message}
        case "completion":
            return {"detail": {"error": message}}
    brief = {"message": message, "type": problem.type}
    match traits.error_shape:
        case "flat":
            flat = {**brief, "param": None, "code": problem.code or "3000"}
            return {"object": "error", **flat, "raw_status_code": status}
        case "brief":
            return {"error": brief}
        case "full":
            return {"error": {**brief, "param": None, "code": problem.code}}
