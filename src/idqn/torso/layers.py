"""A network's convolutions as our kernels see them, and how they want its parameters to lie."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from idqn.networks import QNetwork
from idqn.parameters import Storage


class Layer(NamedTuple):
    """A convolution or a transposed one."""

    name: str
    kernel: tuple[int, int]
    stride: int
    big: tuple[int, int]  # height and width of the big image


def convolutions(module: QNetwork) -> tuple[list[Layer], list[Layer]]:
    """The convolutions of the encoder and of the decoder, in the order data takes."""
    height, width = module.mean_image.shape[1:]
    encoder: list[Layer] = []
    for number, convolution in enumerate(module.encoder.convolutions):
        assert isinstance(convolution, nn.Conv2d)
        kernel, stride = convolution.kernel_size[0], convolution.stride[0]
        name = f"encoder.convolutions.{number}"
        encoder.append(Layer(name, (kernel, kernel), stride, (height, width)))
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
    if module.decoder is None:
        return encoder, []
    decoder = [
        mirrored._replace(name=f"decoder.deconvolutions.{number}")
        for number, mirrored in enumerate(reversed(encoder))
    ]
    return encoder, decoder


def storage(module: QNetwork) -> dict[str, Storage]:
    """How the kernels want parameters to lie: channels last, like images."""
    found: dict[str, Storage] = {}
    encoder, decoder = convolutions(module)
    for layer in (*encoder, *decoder):
        weight = module.get_parameter(f"{layer.name}.weight")
        found[f"{layer.name}.weight"] = Storage(tuple(weight.shape), (2, 3, 1, 0))
    image = module.encoder.image_shape
    if module.encoder.linear is not None:
        size = module.encoder.linear.out_features
        found["encoder.linear.weight"] = Storage((size, *image), (0, 2, 3, 1))
    if module.decoder is not None:
        size = module.decoder.linear.in_features
        found["decoder.linear.weight"] = Storage((*image, size), (1, 2, 0, 3))
        found["decoder.linear.bias"] = Storage(image, (1, 2, 0))
    return found
