"""What may be told of a failure where others read it: in a log, in a trace."""

from pydantic import ValidationError

from chalicelib.domain import errors

LONGEST_WORDS = 300
MOST_PLACES = 5

_QUOTE_NOBODY = (
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
"""Whose words are about Annals, its store or its code, and never about what somebody sent."""


def described(failure: BaseException) -> str:
    """The kind of a failure, and its words if they quote nobody."""
    kind, said = type(failure).__name__, words(failure)
    return f"{kind}: {said}" if said else kind


def words(failure: BaseException) -> str:
    """What a failure says without quoting anybody: no payload, no token, no address. Often that is nothing."""
    said = _words(failure)
    return said if len(said) <= LONGEST_WORDS else f"{said[:LONGEST_WORDS]}…"


def _words(failure: BaseException) -> str:
    cause = failure if isinstance(failure, ValidationError) else failure.__cause__
    if isinstance(cause, ValidationError):
        return _places(cause)
    if isinstance(failure, _QUOTE_NOBODY):
        return str(failure)
    if isinstance(failure, OSError):
        return failure.strerror or ""
    return _code(failure)


def _places(failure: ValidationError) -> str:
    """Where what was sent is wrong, and which rule it breaks; the name of an unknown field is somebody's own."""
    found = failure.errors(include_url=False, include_context=False, include_input=False)
    places = ((error["loc"][:-1] if error["type"] == "extra_forbidden" else error["loc"], error) for error in found)
    told = (f"{'.'.join(map(str, place))}: {error['type']}".removeprefix(": ") for place, error in places)
    return "; ".join([*told][:MOST_PLACES])


def _code(failure: BaseException) -> str:
    """The code of AWS, if it refused something: what else it says may quote an address."""
    match failure:
        case object(code=str(code)) | object(response={"Error": {"Code": str(code)}}):
            return code
        case _:
            return ""
