"""`python -m embodied.completion SHELL`: completion of commands, flags and tasks, as a script for a shell.

The script holds all words, so that a shell that completes starts no Python. It is written anew after an update.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum

import tyro

from embodied import cli
from embodied.cli.commands import COMMANDS, PROGRAM, call
from embodied.cli.help import ALL
from embodied.env.registry import join_content
from embodied.errors import guard

BASH = """\
_{program}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} words=
  case $COMP_CWORD:${{COMP_WORDS[1]}}:$word in
    1:*) words="{commands}" ;;
{flags}
    *) words="{tasks}" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o bashdefault -o default -F _{program} {program}
"""


class Shell(StrEnum):
    """Shells."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@dataclasses.dataclass(frozen=True)
class Settings:
    """Write a script with which a shell completes commands, flags, and names of tasks.

    Of bash and zsh, ~/.bashrc and ~/.zshrc are to read it: source ~/.embodied.sh

    Examples:
        python -m embodied.completion bash > ~/.embodied.sh
        python -m embodied.completion zsh > ~/.embodied.sh
        python -m embodied.completion fish > ~/.config/fish/completions/embodied.fish
    """

    shell: tyro.conf.Positional[Shell]
    """bash, zsh or fish."""


@guard
def main(arguments: list[str] | None = None) -> int:
    shell = cli.parse(Settings, arguments, "completion").shell
    registry = join_content()
    tasks = [*registry, *(name for name in registry.suites if ":" not in name)]  # at which bash would part a word
    print(WRITERS[shell]({name: flags_of_command(name) for name in COMMANDS}, tasks), end="")
    return 0


def flags_of_command(name: str) -> list[str]:
    """The flags in the help of a command; where it takes a task's, those that it has without one."""
    said, started = io.StringIO(), sys.argv
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        call(COMMANDS[name], [ALL])
    sys.argv = started
    heads = re.findall(r"^  (-.*?)(?:  |$)", said.getvalue(), re.MULTILINE)
    return sorted({"--help", ALL, *(flag for head in heads for flag in re.findall(r"--[\w.-]+", head))})


def bash(flags: Mapping[str, Sequence[str]], tasks: Sequence[str]) -> str:
    """A function for bash's `complete`."""
    cases = [f'    *:{name}:-*) words="{" ".join(own)}" ;;' for name, own in flags.items()]
    return BASH.format(program=PROGRAM, commands=" ".join(flags), flags="\n".join(cases), tasks=" ".join(tasks))


def zsh(flags: Mapping[str, Sequence[str]], tasks: Sequence[str]) -> str:
    """The same by zsh's own stand-in for bash's `complete`."""
    return "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n" + bash(flags, tasks)


def fish(flags: Mapping[str, Sequence[str]], tasks: Sequence[str]) -> str:
    """A line for every command, with its flags, and one for tasks."""
    lines = [f'complete -c {PROGRAM} -n "not __fish_use_subcommand" -a "{" ".join(tasks)}"']
    for name, own in flags.items():
        lines.append(f'complete -c {PROGRAM} -n __fish_use_subcommand -f -a {name} -d "{COMMANDS[name].summary}"')
        lines.append(f'complete -c {PROGRAM} -n "__fish_seen_subcommand_from {name}" -a "{" ".join(own)}"')
    return "\n".join(lines) + "\n"


WRITERS = {Shell.BASH: bash, Shell.ZSH: zsh, Shell.FISH: fish}


if __name__ == "__main__":
    sys.exit(main())
