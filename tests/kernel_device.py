"""Where kernels are tested: on a GPU or, without one, in Triton's interpreter."""

from __future__ import annotations

import pytest
import torch

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
# the interpreter computes nonsense with bfloat16
TYPES = [torch.float32, torch.bfloat16] if torch.cuda.is_available() else [torch.float32]
RUNS = 2
MARKS = [
    pytest.mark.filterwarnings("ignore"),  # compilers and cuBLAS warn of their own affairs
    pytest.mark.usefixtures("full_precision"),
]
