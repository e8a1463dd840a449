"""Completion for shells, made from the command line's own description."""

import argparse
from collections.abc import Callable, Mapping, Sequence

BASH = """_annals() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} words
    if [ "$COMP_CWORD" -eq 1 ]; then words="{commands}"; else
        case ${{COMP_WORDS[1]}} in
{cases}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _annals annals"""
ZSH = """#compdef annals
autoload -U +X compinit && compinit
autoload -U +X bashcompinit && bashcompinit
"""


def script(top: argparse.ArgumentParser, shell: str) -> str:
    """What the shell is to evaluate."""
    writers: Mapping[str, Callable[[Mapping[str, argparse.ArgumentParser]], str]] = {
        "bash": _bash,
        "zsh": lambda known: ZSH + _bash(known),
        "fish": _fish,
    }
    return writers[shell](commands(top))


def commands(top: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The commands by their names."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("there are no commands")


def _bash(known: Mapping[str, argparse.ArgumentParser]) -> str:
    cases = "\n".join(f'            {name}) words="{" ".join(_words(one))}" ;;' for name, one in known.items())
    return BASH.format(commands=" ".join(known), cases=cases)


def _fish(known: Mapping[str, argparse.ArgumentParser]) -> str:
    first = f"complete -c annals -f -n __fish_use_subcommand -a '{' '.join(known)}'"
    others = [
        f"complete -c annals -n '__fish_seen_subcommand_from {name}' -a '{' '.join(_words(one))}'"
        for name, one in known.items()
    ]
    return "\n".join([first, *others])


def _words(command: argparse.ArgumentParser) -> Sequence[str]:
    """Its options, and the values that it knows by name."""
    actions = command._actions
    options = [option for action in actions for option in action.option_strings]
    values = [str(value) for action in actions if not action.option_strings for value in action.choices or ()]
    return [*values, *options]
