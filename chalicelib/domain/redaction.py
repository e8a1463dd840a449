"""Descriptions of errors that are safe to log and trace, because they contain no user data."""

from pydantic import ValidationError

from chalicelib.domain import errors

MAX_MESSAGE_LENGTH = 300
MAX_VALIDATION_ERRORS = 5

SAFE_TO_LOG = (
    errors.Busy,
    errors.ConditionFailed,
    errors.SessionTaken,
    errors.TooLarge,
    errors.Unavailable,
    errors.Unusable,
    errors.Unwritable,
    ArithmeticError,
    AttributeError,
    ImportError,
    MemoryError,
    NameError,
    RecursionError,
    TypeError,
)
"""Errors whose messages are about Annals, its store or its code, never about data that a client sent."""


def safe_description(error: BaseException) -> str:
    """The error's class, and its message if that is safe."""
    kind, message = type(error).__name__, safe_message(error)
    return f"{kind}: {message}" if message else kind


def safe_message(error: BaseException) -> str:
    """The error's message without payloads, tokens and addresses. Empty if nothing of it is safe."""
    message = _message(error)
    return message if len(message) <= MAX_MESSAGE_LENGTH else f"{message[:MAX_MESSAGE_LENGTH]}…"


def _message(error: BaseException) -> str:
    cause = error if isinstance(error, ValidationError) else error.__cause__
    if isinstance(cause, ValidationError):
        return _violated_rules(cause)
    if isinstance(error, SAFE_TO_LOG):
        return str(error)
    if isinstance(error, OSError):
        return error.strerror or ""
    return _aws_error_code(error)


def _violated_rules(error: ValidationError) -> str:
    """Location and rule of each violation. The name of an unknown field is omitted, since the client chose it."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    located = ((item["loc"][:-1] if item["type"] == "extra_forbidden" else item["loc"], item) for item in details)
    rules = [f"{'.'.join(map(str, location))}: {item['type']}".removeprefix(": ") for location, item in located]
    return "; ".join(rules[:MAX_VALIDATION_ERRORS])


def _aws_error_code(error: BaseException) -> str:
    """The error code of AWS and the id of the request. The message of AWS may contain an address."""
    match error:
        case object(code=str(code), operation=str(operation), request_id=str(request_id)):
            return f"{operation}: {code} (request id {request_id})" if request_id else f"{operation}: {code}"
        case object(code=str(code)):
            return code
        case object(response={"Error": {"Code": str(code)}, "ResponseMetadata": {"RequestId": str(request_id)}}):
            return f"{code} (request id {request_id})"
        case object(response={"Error": {"Code": str(code)}}):
            return code
        case _:
            return ""
