"""Asking whoever started a command, before something is done that they may not want."""


def answer_to(question: str) -> str:
    """What was typed; nothing if nobody is there."""
    try:
        return input(f"\n{question} ").strip()
    except EOFError:
        print("Nobody is there to answer: say YES=1.")
        return ""


def agreed(question: str) -> bool:
    """Whether the answer was yes."""
    return answer_to(f"{question} [y/N]").lower() in ("y", "yes")
