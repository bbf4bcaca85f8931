"""Ways through mazes."""

from __future__ import annotations

from collections.abc import Iterable

from idqn.envs.mini_pacman import Cell


def open_cells(maze: tuple[str, ...]) -> frozenset[Cell]:
    """Of rows of cells, those that are no wall (#)."""
    return frozenset(
        (row, col) for row, line in enumerate(maze) for col, what in enumerate(line) if what != "#"
    )


def distances(cells: frozenset[Cell], starts: Iterable[Cell]) -> dict[Cell, int]:
    """Steps along corridors from the nearest start; tunnels are not followed."""
    found = dict.fromkeys(starts, 0)
    queue = list(found)
    for row, col in queue:  # grows while it is read: breadth first
        for cell in ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1)):
            if cell in cells and cell not in found:
                found[cell] = found[row, col] + 1
                queue.append(cell)
    return found
