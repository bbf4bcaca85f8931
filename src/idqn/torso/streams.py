"""Work on a GPU that goes on beside other work."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch


class SideStream(AbstractContextManager[None]):
    """`with` it, work is queued beside what follows, after all that came before; `join` waits."""

    def __init__(self, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        make: Any = torch.cuda.Stream
        self._stream = make(device) if on_gpu else None
        self._within: Any = None

    def __enter__(self) -> None:
        if self._stream is not None:
            self._stream.wait_stream(torch.cuda.current_stream())
            self._within = torch.cuda.stream(self._stream)
            self._within.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._stream is not None:
            self._within.__exit__(*error)

    def join(self) -> None:
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)
