"""The command line: `idqn COMMAND ...`: parsing, and errors as one line."""

from __future__ import annotations

import inspect
import io
import os
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import tyro

from idqn import commands, sharing
from idqn.bench import commands as bench
from idqn.bench import explain as bench_explain
from idqn.bench.options import BenchEnvOptions, BenchReplayOptions, BenchTrainOptions
from idqn.config import Config, EnvConfig, field_names, from_dict, unchecked
from idqn.errors import DivergenceError, UserError, nearest
from idqn.presets import preset
from idqn.reproduce import commands as studies

T = TypeVar("T")


def main(argv: Sequence[str] | None = None) -> None:
    # Threads that wait by spinning stall each other when cores are shared. Let them sleep: GNU's
    # after some 10 µs, as long as it takes to wake up. Must be set before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: _warn(message)
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
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "memory" not in str(error).lower():
            raise
        _fail(
            f"not enough memory ({str(error).splitlines()[0]}); lower replay.transitions, "
            f"train.envs or agent.embedding_size, or train fewer runs at once",
            2,
        )
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
    if command in ("bench", "reproduce"):
        if not rest or rest[0] in ("-h", "--help"):
            print(_usage(f"{command} "))
            return 0 if rest else 2
        command, rest = f"{command} {rest[0]}", rest[1:]
    if command not in _COMMANDS:
        raise UserError(
            f"unknown command '{command}'{nearest(command, _COMMANDS)} "
            f"(commands: {', '.join(_COMMANDS)})"
        )
    options, run = _COMMANDS[command]
    if options in _WITH_CONFIG:
        return run(_parse_with_config(options, command, rest))
    return run(_parse(options, command, rest))


def _usage(family: str = "") -> str:
    """All commands, or those of one family."""
    command = f"idqn {family}COMMAND"
    lines = [f"usage: {command} ...", ""]
    for name, (options, _) in _COMMANDS.items():
        if name.startswith(family):
            own = name.removeprefix(family)
            lines.append(f"  {own:12} {(options.__doc__ or '').splitlines()[0]}")
    return "\n".join([*lines, "", f"`{command} --help` says more about each."])


def _parse(options: type[T], command: str, arguments: list[str], default: T | None = None) -> T:
    """Parse with tyro; what it does not understand becomes one line."""
    parse: Any = tyro.cli  # its overloads do not know of a default that may be missing
    parsed: T
    unknown: list[str]
    complaint = io.StringIO()
    try:
        with redirect_stderr(complaint):
            parsed, unknown = parse(
                options,
                prog=f"idqn {command}",
                args=arguments,
                default=default,
                return_unknown_args=True,
                description=inspect.getdoc(options),
            )
    except SystemExit as exit_:
        if not exit_.code:  # --help
            raise
        raise UserError(f"{_gist(complaint.getvalue())} (`idqn {command} --help`)") from None
    if unknown:
        raise UserError(f"{_unknown(options, unknown)} (`idqn {command} --help`)")
    return parsed


def _gist(complaint: str) -> str:
    """What tyro complains about: a title, a rule, the reason, a rule, advice; or the title in the
    upper edge of a box, and the rest within it. The reason, with the nearest of what it expects."""
    parts: list[list[str]] = [[]]
    for line in complaint.splitlines():
        if line.strip(" -─│╰╯") and not line.startswith("╭"):
            parts[-1].append(line.strip(" │"))
        else:
            parts.append([])
    reason = " ".join(parts[1] if len(parts) > 1 else parts[0])
    choice = re.search(r"invalid choice '(.*)' for argument .* Expected one of \((.*)\)", reason)
    if choice is None:
        return reason
    expected = re.findall(r"'([^']*)'", choice[2])
    return reason + nearest(choice[1], expected, prefix=" Did you mean ")


def _unknown(options: type[Any], unknown: list[str]) -> str:
    """An argument nobody knows, with the nearest that somebody does."""
    word = next((u for u in unknown if u.startswith("-")), unknown[0])
    flag = word.split("=")[0].replace("_", "-")
    if flag == "--env.id" and options is BenchTrainOptions:
        return "environments are given as --games ENV ..."
    if flag == "--env.id":
        return "environments are given without a flag: idqn train ENV ..."
    own = [name for name in options.__dataclass_fields__ if name not in ("envs", "tree", "run")]
    if options is BenchTrainOptions:
        own.append("games")
    if options in _WITH_CONFIG:
        own += [name for name in field_names() if name not in ("env.id", "train.seed")]
    known = [f"--{name.replace('_', '-')}" for name in own]
    seeds = flag == "--train.seed" and "seeds" in own
    hint = "; did you mean '--seeds'?" if seeds else nearest(flag, known)
    return f"unknown argument '{word}'{hint}"


_WITH_CONFIG = (
    commands.TrainOptions,
    commands.ConfigOptions,
    BenchTrainOptions,
)


def _parse_with_config(options: type[T], command: str, arguments: list[str]) -> T:
    """Preset, then TOML file, then flags: the first two are the flags' defaults. So it takes two
    passes: one to learn which preset, file, environment and agent, one for everything."""
    with unchecked():
        asked = [a for a in arguments if a not in ("-h", "--help")]
        first: Any = _parse(options, command, asked, default=options(tree=Config()))  # type: ignore[call-arg]
    data = _read_toml(first.config) if first.config is not None else {}
    env = data.get("env")
    named = env.get("id") if isinstance(env, dict) else None
    env_id = first.envs[0] if first.envs else named or EnvConfig().id
    agent = _chosen_agent(arguments, first.tree.agent.name, data)
    if isinstance(data.get("agent"), dict):
        data["agent"]["name"] = agent
    config = from_dict(data, base=preset(first.preset, str(env_id), agent))
    default: Any = options(tree=config)  # type: ignore[call-arg]
    parsed: Any = _parse(options, command, arguments, default=default)
    result: T = parsed if parsed.envs or not named else replace(parsed, envs=(named,))
    return result


def _chosen_agent(arguments: list[str], parsed: str, data: dict[str, Any]) -> str:
    """The flag's agent or, without one, the file's."""
    flags = {argument.split("=")[0].replace("_", "-") for argument in arguments}
    if flags & {"--agent", "--agent.name"}:
        return parsed
    table = data.get("agent")
    return str(table.get("name", parsed)) if isinstance(table, dict) else parsed


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise UserError(f"config file '{path}' cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"'{path}' is not valid TOML: {error}") from error


_COMMANDS: dict[str, tuple[type[Any], Callable[[Any], int]]] = {
    "train": (commands.TrainOptions, commands.train),
    "resume": (commands.ResumeOptions, commands.resume),
    "eval": (commands.EvalOptions, commands.evaluate),
    "play": (commands.PlayOptions, commands.play),
    "explain": (commands.ExplainOptions, commands.explain),
    "attack": (commands.AttackOptions, commands.attack),
    "config": (commands.ConfigOptions, commands.config),
    "runs": (commands.RunsOptions, commands.runs),
    "zoo": (sharing.ZooOptions, sharing.zoo_),
    "export": (sharing.ExportOptions, sharing.export),
    "reproduce table1": (studies.Table1Options, studies.reproduce),
    "reproduce table2": (studies.Table2Options, studies.reproduce),
    "reproduce sensitivity": (studies.SensitivityOptions, studies.reproduce),
    "reproduce ablation": (studies.AblationOptions, studies.reproduce),
    "reproduce curves": (studies.CurvesOptions, studies.reproduce),
    "bench train": (BenchTrainOptions, bench.bench_train),
    "bench env": (BenchEnvOptions, bench.bench_env),
    "bench replay": (BenchReplayOptions, bench.bench_replay),
    "bench explain": (bench_explain.BenchExplainOptions, bench_explain.bench_explain),
}
