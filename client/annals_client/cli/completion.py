"""Shell completion scripts, generated from the argument parser."""

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


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for the shell to evaluate."""
    writers: Mapping[str, Callable[[Mapping[str, argparse.ArgumentParser]], str]] = {
        "bash": _bash,
        "zsh": lambda parsers: ZSH + _bash(parsers),
        "fish": _fish,
    }
    return writers[shell](subparsers(parser))


def subparsers(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parsers of the commands by name."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the parser has no commands")


def _bash(parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    cases = "\n".join(
        f'            {name}) words="{" ".join(_completions(command))}" ;;' for name, command in parsers.items()
    )
    return BASH.format(commands=" ".join(parsers), cases=cases)


def _fish(parsers: Mapping[str, argparse.ArgumentParser]) -> str:
    command_line = f"complete -c annals -f -n __fish_use_subcommand -a '{' '.join(parsers)}'"
    option_lines = [
        f"complete -c annals -n '__fish_seen_subcommand_from {name}' -a '{' '.join(_completions(command))}'"
        for name, command in parsers.items()
    ]
    return "\n".join([command_line, *option_lines])


def _completions(command: argparse.ArgumentParser) -> Sequence[str]:
    """The choices and options of a command."""
    actions = command._actions
    options = [option for action in actions for option in action.option_strings]
    values = [str(value) for action in actions if not action.option_strings for value in action.choices or ()]
    return [*values, *options]
