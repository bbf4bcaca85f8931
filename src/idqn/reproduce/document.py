"""Tables and sentences, for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Table(NamedTuple):
    title: str
    headings: list[str]
    rows: list[list[str]]


class Lines(NamedTuple):
    """Sentences, one to a line."""

    title: str
    lines: list[str]


Block = Table | Lines


def show(title: str, blocks: Sequence[Block]) -> None:
    """Print it."""
    from idqn.console import print_table

    print(title)
    for block in blocks:
        print(f"\n{block.title}" if block.title else "")
        if isinstance(block, Table):
            print_table(block.headings, block.rows)
        else:
            print("\n".join(block.lines))


def markdown(title: str, blocks: Sequence[Block]) -> str:
    parts = [f"# {title}"]
    for block in blocks:
        if block.title:
            parts.append(f"## {block.title}")
        if isinstance(block, Table):
            parts.append(_table(block))
        else:
            parts.append("\n".join(f"- {_escaped(line)}" for line in block.lines))
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    rule = ["---", *["---:"] * (len(table.headings) - 1)]
    lines = [table.headings, rule, *table.rows]
    return "\n".join(f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
