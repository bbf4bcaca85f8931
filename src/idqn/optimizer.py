"""Adam with clipped gradients, for all networks of a population at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from idqn.config import OptimizerConfig
from idqn.parameters import ParameterRows

_LARGEST = 1e30  # no gradient is longer: one that is has diverged


class Optimizer:
    """Kingma & Ba's Algorithm 1, elementwise on [R, D], with a learning rate per row. Its tensors
    change in place."""

    def __init__(
        self,
        options: OptimizerConfig,
        rows: ParameterRows,
        online: Tensor,
        rates: Tensor,
        *,
        in_kernel: bool,
        half: Tensor | None = None,
    ) -> None:
        """Learning rates [R], on the CPU, are those of the first step. With `in_kernel`, a step is
        one kernel of our own, which also copies the parameters into `half`, in its type."""
        self._options, self._rows, self._online = options, rows, online
        self._in_kernel, self._half = in_kernel, half
        self._first_rate = rates
        self.mean = torch.zeros_like(online)
        self.square = torch.zeros_like(online)
        self.learning_rate = rates.to(online.device, copy=True)
        self._halvings = 0
        self.updates = torch.zeros((), dtype=torch.int64, device=online.device)

    def schedule(self, steps: int) -> None:
        """Set the learning rate for so many agent steps."""
        options = self._options
        if options.halve_every_steps is None:
            return
        halvings = steps // options.halve_every_steps
        if halvings != self._halvings:  # a copy to a GPU would wait for it
            rate = self._first_rate * 0.5**halvings
            self.learning_rate.copy_(rate.clamp(min=options.min_learning_rate))
            self._halvings = halvings

    def step(self, gradient: Tensor) -> Tensor:
        """One step of all rows; returns the norms [R] that their gradients had before they were
        clipped, which is done in place."""
        norm = norms(gradient)
        if self._options.clip_scope == "global":
            self.adam(gradient, norm, self._options.clip_norm)
        else:
            self.clip_layers(gradient)
            self.adam(gradient, norm, math.inf)
        return norm

    def clip_layers(self, gradient: Tensor) -> None:
        """Scale each layer down by its own norm, as the authors did, who never clipped the keys."""
        limit = self._options.clip_norm
        for name, columns in self._rows.columns.items():
            if name != "head.keys":
                piece = gradient[:, columns]
                piece.mul_((limit / norms(piece).clamp(min=limit))[:, None])

    def adam(self, gradient: Tensor, norm: Tensor, limit: float) -> None:
        """With gradients of norms [R], scaled down to `limit` where theirs are greater."""
        options = self._options
        self.updates += 1
        if self._in_kernel:
            from idqn.kernels import adam_step

            adam_step(
                self._online,
                self.mean,
                self.square,
                gradient,
                half=self._half,
                norm=norm,
                limit=min(limit, _LARGEST),
                rate=self.learning_rate,
                count=self.updates,
                betas=(options.beta1, options.beta2),
                epsilon=options.epsilon,
            )
            return
        for row in range(len(gradient)):  # in one pass, what takes ten with torch's public parts
            torch._fused_adam_(
                [self._online[row]],
                [gradient[row]],
                [self.mean[row]],
                [self.square[row]],
                [],
                [self.updates.float()],
                lr=self.learning_rate[row],
                beta1=options.beta1,
                beta2=options.beta2,
                weight_decay=0.0,
                eps=options.epsilon,
                amsgrad=False,
                maximize=False,
                grad_scale=(norm[row] / limit).clamp(min=1),
            )


def norms(matrix: Tensor) -> Tensor:
    """Of rows, one row at a time on a CPU: each as it would be alone."""
    if matrix.is_cuda:
        found: Tensor = torch.linalg.vector_norm(matrix, dim=1)
        return found
    return torch.stack([torch.linalg.vector_norm(row) for row in matrix])
