"""What a network makes of states under many masks, without doing again what they share.

A mask is the product of a column and a row of numbers, and the first convolution is linear: what
it makes of a change under every mask takes two small products, instead of a convolution of every
perturbed state. And masks end: what lies out of their reach is, in every layer, what it is in the
unperturbed state. Activations are kept with channels last, where convolutions are fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from idqn.networks import QNetwork

_NUMBERS_AT_ONCE = 2**25  # that the last convolution gives, so that memory stays bounded


class Masks(NamedTuple):
    """Mask (r, k) is `down[r]` times `across[k]`."""

    down: Tensor  # [R, h]
    across: Tensor  # [K, w]

    def images(self) -> Tensor:
        """[R, K, h, w]"""
        return self.down[:, None, :, None] * self.across[None, :, None, :]


class Said(NamedTuple):
    """Of n states, under B masks each."""

    q: Tensor  # [n, B, A]
    head_q: Tensor | None  # [n, B, A, heads], of agents with several


def say_under_masks(network: QNetwork, states: Tensor, changes: Tensor, masks: Masks) -> Said:
    """Of state + mask x change for every mask, B = R x K; both are in pixels [n, C, h, w]."""
    layers = [each for each in network.encoder.convolutions if isinstance(each, nn.Conv2d)]
    plain = _unperturbed(layers, network.normalize(states))
    first = _FirstLayer(layers[0], plain[0], changes / 255, masks)
    at_once = max(1, _NUMBERS_AT_ONCE // (len(masks.across) * plain[-1].numel()))
    said = []
    for some in torch.split(torch.arange(len(masks.down)), at_once):
        features = torch.cat([_features(layers, plain, *first(r)) for r in some.tolist()], 1)
        out = network.head(_embedding(network, features.flatten(0, 1)))
        head_q: Tensor | None = getattr(out, "head_q", None)
        if head_q is not None:
            head_q = head_q.view(*features.shape[:2], *head_q.shape[1:])
        said.append(Said(out.q.view(*features.shape[:2], -1), head_q))
    return joined(said, 1)


def joined(said: Sequence[Said], dim: int) -> Said:
    head_q = [part.head_q for part in said if part.head_q is not None]
    return Said(
        torch.cat([part.q for part in said], dim), torch.cat(head_q, dim) if head_q else None
    )


def _features(
    layers: list[nn.Conv2d], plain: list[Tensor], band: Tensor, rows: range
) -> Tensor:  # [n, K, H, W, C]
    """What the convolutions make of a row of masks, of which the first gives `band` at `rows`, and
    what is `plain` elsewhere; all before their ReLU."""
    for layer, before, after in zip(layers[1:], plain, plain[1:], strict=False):
        touched = _touched(rows, layer, after.shape[1])
        x = torch.relu_(_widened(band, rows, before, _seen(touched, layer)))
        y = layer(x.flatten(0, 1).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        band, rows = y.view(*x.shape[:2], *y.shape[1:]), touched
    return torch.relu_(_widened(band, rows, plain[-1], range(plain[-1].shape[1])))


class _FirstLayer:
    """Before its ReLU, of all masks of a row of them."""

    def __init__(self, layer: nn.Conv2d, plain: Tensor, changes: Tensor, masks: Masks) -> None:
        size, stride = layer.kernel_size[0], layer.stride[0]
        self.plain = plain  # [n, U, V, O], of the unperturbed states
        self.rows = [_touched(reach, layer, plain.shape[1]) for reach in _reaches(masks.down)]
        patches = changes.unfold(2, size, stride).unfold(3, size, stride)  # [n, C, U, V, y, x]
        # what each pixel of a patch adds to each output, were it not masked
        parts = torch.einsum("ocyx,ncuvyx->nuyvxo", layer.weight, patches)
        self.parts = parts.flatten(3)  # [n, U, y, V * x * O]
        self.down = masks.down.unfold(1, size, stride)  # [R, U, y]
        self.across = masks.across.unfold(1, size, stride).transpose(0, 1)  # [V, K, x]

    def __call__(self, mask_row: int) -> tuple[Tensor, range]:
        """The rows of outputs that it changes [n, K, u, V, O], and which they are."""
        rows = self.rows[mask_row]
        band = slice(rows.start, rows.stop)
        count, _, outputs, channels = self.plain.shape
        weights = self.down[mask_row, band, None]  # [u, 1, y]
        parts = weights @ self.parts[:, band]  # [n, u, 1, V * x * O]
        parts = parts.view(count, len(rows), outputs, -1, channels)
        added = self.across @ parts.permute(0, 2, 3, 1, 4).flatten(3)  # [n, V, K, u * O]
        added = added.view(*added.shape[:3], len(rows), channels)
        return added.permute(0, 2, 3, 1, 4) + self.plain[:, None, band], rows


def _unperturbed(layers: list[nn.Conv2d], x: Tensor) -> list[Tensor]:
    """What each layer gives before its ReLU, [n, H, W, C]."""
    found = []
    for layer in layers:
        y = layer(x)
        found.append(y.permute(0, 2, 3, 1).contiguous())
        x = torch.relu(y)
    return found


def _embedding(network: QNetwork, features: Tensor) -> Tensor:
    """As the encoder's end makes it of [B, H, W, C]."""
    images = features.permute(0, 3, 1, 2)
    linear = network.encoder.linear
    if linear is None:
        return images.flatten(1)
    # a convolution as large as the image, which takes channels where they are
    weight = linear.weight.view(-1, *images.shape[1:])
    embedding = F.conv2d(images, weight, linear.bias).flatten(1)
    return embedding.chunk(2, -1)[0] if network.variational else embedding


def _reaches(down: Tensor) -> list[range]:
    """The rows of pixels where each row of masks is not 0."""
    found = [row.nonzero().flatten().tolist() for row in down.cpu()]
    return [range(rows[0], rows[-1] + 1) for rows in found]


def _touched(rows: range, layer: nn.Conv2d, outputs: int) -> range:
    """Rows of a layer's output that depend on these rows of its input, at least one."""
    size, stride = layer.kernel_size[0], layer.stride[0]
    first = min(max(0, -(-(rows.start - size + 1) // stride)), outputs - 1)
    last = min((rows.stop - 1) // stride, outputs - 1)
    return range(first, max(first, last) + 1)


def _seen(rows: range, layer: nn.Conv2d) -> range:
    """Rows of a layer's input that these rows of its output depend on."""
    size, stride = layer.kernel_size[0], layer.stride[0]
    return range(rows.start * stride, (rows.stop - 1) * stride + size)


def _widened(band: Tensor, rows: range, plain: Tensor, wanted: range) -> Tensor:
    """The rows wanted: those of the band [n, K, rows, W, C], and around it the unperturbed ones of
    `plain` [n, H, W, C]."""
    above = plain[:, None, wanted.start : min(rows.start, wanted.stop)]
    below = plain[:, None, rows.stop : wanted.stop]
    inner = band[:, :, max(0, wanted.start - rows.start) : max(0, wanted.stop - rows.start)]
    masks = band.shape[1]
    around = [part.expand(-1, masks, *part.shape[2:]) for part in (above, below)]
    return torch.cat([around[0], inner, around[1]], 2)
