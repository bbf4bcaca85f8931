"""Where kernels are tested: on a GPU or, without one, in Triton's interpreter."""

from __future__ import annotations

import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# the interpreter computes nonsense with bfloat16
TYPES = [torch.float32, torch.bfloat16] if torch.cuda.is_available() else [torch.float32]
RUNS = 2
