"""The command line: `idqn COMMAND ...`: parsing, and errors as one line."""

from __future__ import annotations

import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import tyro

from idqn import commands
from idqn.config import field_names, from_dict
from idqn.errors import DivergenceError, UserError, nearest
from idqn.presets import preset

T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> None:
    # Threads that wait by spinning stall each other when cores are shared; sleep instead. Must be
    # set before torch is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    warnings.showwarning = lambda message, *_, **__: _warn(message)
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        sys.exit(_dispatch(arguments))
    except UserError as error:
        _fail(error, 2)
    except DivergenceError as error:
        _fail(error, 1)
    except BrokenPipeError:  # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.strerror or error}: '{error.filename}'" if error.filename else error, 2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)


def _warn(message: object) -> None:
    print(f"idqn: warning: {message}", file=sys.stderr)


def _fail(message: object, code: int) -> None:
    print(f"idqn: error: {message}", file=sys.stderr)
    sys.exit(code)


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_usage())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        from idqn import __version__

        print(f"idqn {__version__}")
        return 0
    command, rest = arguments[0], arguments[1:]
    if command not in _COMMANDS:
        raise UserError(
            f"unknown command '{command}'{nearest(command, _COMMANDS)} "
            f"(commands: {', '.join(_COMMANDS)})"
        )
    options, run = _COMMANDS[command]
    if options in (commands.TrainOptions, commands.ConfigOptions):
        return run(_parse_with_config(options, command, rest))
    return run(_parse(options, command, rest))


def _usage() -> str:
    lines = ["usage: idqn COMMAND ...", ""]
    for name, (options, _) in _COMMANDS.items():
        lines.append(f"  {name:8} {(options.__doc__ or '').splitlines()[0]}")
    return "\n".join([*lines, "", "`idqn COMMAND --help` says more about each."])


def _parse(options: type[T], command: str, arguments: list[str], default: T | None = None) -> T:
    """Parse with tyro; what it does not know becomes one line with the nearest right flag."""
    parse: Any = tyro.cli  # its overloads do not know of a default that may be missing
    parsed: T
    unknown: list[str]
    parsed, unknown = parse(
        options,
        prog=f"idqn {command}",
        args=arguments,
        default=default,
        return_unknown_args=True,
        description=options.__doc__,
    )
    if unknown:
        word = next((u for u in unknown if u.startswith("-")), unknown[0])
        flag = word.split("=")[0]
        own = [name.replace("_", "-") for name in options.__dataclass_fields__]  # type: ignore[attr-defined]
        if options in (commands.TrainOptions, commands.ConfigOptions):
            own += [name.replace("_", "-") for name in field_names()]
        suggestion = nearest(flag.replace("_", "-"), [f"--{name}" for name in own])
        raise UserError(f"unknown argument '{word}'{suggestion} (`idqn {command} --help`)")
    return parsed


def _parse_with_config(options: type[T], command: str, arguments: list[str]) -> T:
    """Preset, then TOML file, then flags: the first two set the flags' defaults."""
    name = _peek(arguments, "--preset") or "paper"
    env_id = next((a for a in _leading(arguments)), "ALE/MsPacman-v5")
    config = preset(name, env_id)
    file = _peek(arguments, "--config")
    if file is not None:
        config = from_dict(_read_toml(Path(file)), base=config)
    return _parse(options, command, arguments, default=options(tree=config))  # type: ignore[call-arg]


def _peek(arguments: list[str], flag: str) -> str | None:
    """The value of a flag before everything is parsed."""
    for word, following in pairwise([*arguments, ""]):
        if word == flag:
            return following
        if word.startswith(flag + "="):
            return word.removeprefix(flag + "=")
    return None


def _leading(arguments: list[str]) -> list[str]:
    """Arguments that look like environment ids."""
    return [a for a in arguments if not a.startswith("-") and "-v" in a]


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"there is no config file '{path}'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"'{path}' is not valid TOML: {error}") from error


_COMMANDS: dict[str, tuple[type[Any], Callable[[Any], int]]] = {
    "train": (commands.TrainOptions, commands.train),
    "resume": (commands.ResumeOptions, commands.resume),
    "eval": (commands.EvalOptions, commands.evaluate),
    "play": (commands.PlayOptions, commands.play),
    "config": (commands.ConfigOptions, commands.config),
    "runs": (commands.RunsOptions, commands.runs),
}
