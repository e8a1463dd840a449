"""Asks the operator before a destructive step."""


def ask(question: str, hint: str = "YES=1") -> str:
    """The operator's answer. Empty if standard input is closed; then `hint` says how to run without questions."""
    try:
        return input(f"\n{question} ").strip()
    except EOFError:
        print(f"No terminal to answer the question: set {hint}.")
        return ""


def confirm(question: str, hint: str = "YES=1") -> bool:
    return ask(f"{question} [y/N]", hint).lower() in ("y", "yes")
