"""Convolutions with one set of weights per run, and what else an update needs, as Triton kernels.

Libraries have no convolution for P small networks at once: grouped ones are slow, and unfolding
the image to multiply matrices moves many times the data. Here a convolution is one matrix product
per run whose left operand is read straight from the image (an implicit GEMM).

Images are channels last, [P, B, H, W, C]; weights are [P, KH, KW, C, F] (C channels in the big
image, F in the small one). Both are dense within a run; runs may lie any distance apart, as rows
of one matrix of parameters do. A transposed convolution has the same weights, so three products
serve both ways: `convolve` (big to small), `spread` (small to big) and `correlate` (the gradient
of the weights). The order of every sum is fixed: results repeat.
"""

from idqn.kernels.adam import adam_step
from idqn.kernels.convolution import convolve, convolve_and_sum, spread
from idqn.kernels.gradients import collect, correlate, outer, sum_pixels
from idqn.kernels.launching import rehearsal
from idqn.kernels.shrinking import ShrinkToArea

__all__ = [
    "ShrinkToArea",
    "adam_step",
    "collect",
    "convolve",
    "convolve_and_sum",
    "correlate",
    "outer",
    "rehearsal",
    "spread",
    "sum_pixels",
]
