"""How products are cut up: measured on an H200, for one run and for 24; see docs/performance.md."""

from __future__ import annotations

from typing import NamedTuple

import triton

BUSY = 264  # blocks that keep a large GPU busy


class Tile(NamedTuple):
    """How a product is cut up."""

    m: int
    n: int
    k: int
    warps: int
    stages: int


def convolve_tile(m: int, n: int, runs: int) -> Tile:
    many = triton.cdiv(m, 128) * runs >= BUSY
    return Tile(128, _columns(n), 32, 4, 3) if many else Tile(64, _columns(n), 64, 4, 3)


def spread_tile(m: int, n: int, runs: int, filters: int) -> Tile:
    inner = 64 if filters % 64 == 0 else 32  # a tile must lie within one tap
    times = runs * triton.cdiv(n, _columns(n))
    if triton.cdiv(m, 128) * times >= BUSY:
        return Tile(128, _columns(n), inner, 4, 3)
    rows = 64 if triton.cdiv(m, 64) * times >= BUSY // 4 else 32
    return Tile(rows, _columns(n), inner, 8, 3)


def correlate_tile(k: int, n: int, runs: int) -> tuple[Tile, int]:
    """And into how many parts to split the sum."""
    tile, blocks = (
        (Tile(64, _columns(n), 128, 4, 3), 3 * BUSY // 2)
        if runs >= 4
        else (Tile(128, _columns(n), 64, 4, 3), BUSY // 2)
    )
    tiles = triton.cdiv(k, tile.k) * triton.cdiv(n, tile.n)
    return tile, max(blocks // (tiles * runs), 1)


def _columns(n: int) -> int:
    return min(max(triton.next_power_of_2(n), 16), 64)
