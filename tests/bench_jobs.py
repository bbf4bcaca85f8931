"""What the tests do in processes of their own; here, so that those need not import torch."""

from __future__ import annotations

import os

from idqn.bench.process import Say
from idqn.errors import UserError


def add(*numbers: int, say: Say) -> int:
    say("adding", "all of them")
    return sum(numbers)


def complain(say: Say) -> None:
    raise UserError("no such thing")


def die(say: Say) -> None:
    os._exit(3)
