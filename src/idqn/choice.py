"""Choosing a turn's actions on the device, while the host does something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.capture import Captured
from idqn.learner import Learner
from idqn.replay import Replay


class Choice:
    """The choice of one turn's actions. The device is asked to begin it, then goes on with other
    work; only reading the actions waits, and only for them."""

    def __init__(self, learner: Learner, replay: Replay, turn: int) -> None:
        device = learner.device
        self._learner, self._replay, self._turn = learner, replay, turn
        self._choose = Captured(self._on_device, device)
        self._host: Tensor | None = None
        event: Any = torch.cuda.Event
        self._done = event() if device.type == "cuda" else None

    def begin(self) -> None:
        self._choose()
        if self._done is not None:
            self._done.record()

    def actions(self) -> NDArray[np.int64]:
        """[P*E/turns]"""
        if self._done is not None:
            self._done.synchronize()
        assert self._host is not None
        actions: NDArray[np.int64] = self._host.numpy().flatten()
        return actions

    def _on_device(self) -> None:
        replay, turn = self._replay, self._turn
        episode = replay.episode(turn)
        first_env = turn * episode.shape[1]
        chosen = self._learner.act(replay.observation(turn), episode, first_env)
        if self._host is None:
            self._host = torch.empty_like(chosen, device="cpu", pin_memory=chosen.is_cuda)
        self._host.copy_(chosen, non_blocking=True)
