"""The decoder is the encoder's mirror: same sizes, back to the very shape it came from."""

import math

import pytest
import torch
from torch import Generator, nn

from idqn.networks.decoder import Decoder, TransposedConvolution
from idqn.networks.encoder import ENCODERS, Conv, choose_layers


def generator() -> Generator:
    return Generator().manual_seed(0)


SHAPES = [
    (4, 84, 84),
    (12, 210, 160),
    (2, 33, 33),
    (4, 10, 10),
    (3, 37, 53),
    (1, 36, 39),
    (2, 18, 35),
    (2, 19, 20),
    (1, 5, 7),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_output_has_exactly_the_shape_of_the_input(shape: tuple[int, int, int]) -> None:
    layers = choose_layers("auto", *shape[1:])
    decoder = Decoder(shape, layers, 3, 0.1, generator())

    assert decoder(torch.ones(2, 3)).shape == (2, *shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dense_layers_are_mirrored_too(shape: tuple[int, int, int]) -> None:
    layers = choose_layers("auto", *shape[1:], dense=True)
    decoder = Decoder(shape, layers, 3, 0.1, generator())

    assert decoder(torch.ones(2, 3)).shape == (2, *shape)


@pytest.mark.parametrize("size", range(36, 45))
def test_every_remainder_of_the_strides_is_made_up_for(size: int) -> None:
    shape = (1, size, 80 - size)
    decoder = Decoder(shape, ENCODERS["small"], 2, 0.1, generator())

    assert decoder(torch.ones(1, 2)).shape == (1, *shape)


def test_sizes_on_the_way_mirror_the_encoder() -> None:
    decoder = Decoder((12, 210, 160), ENCODERS["nature"], 2, 0.1, generator())
    x = torch.zeros(1, *decoder.start_shape)

    seen = [tuple(x.shape[1:])]
    for deconvolution in decoder.deconvolutions:
        x = deconvolution(x)
        seen.append(tuple(x.shape[1:]))

    assert seen == [(64, 22, 16), (64, 24, 18), (32, 51, 39), (12, 210, 160)]


def test_forward_by_hand() -> None:
    decoder = Decoder((1, 2, 2), (Conv(1, 2, 2),), 1, 0.1, generator())
    with torch.no_grad():
        decoder.linear.weight.fill_(2.0)
        decoder.linear.bias.fill_(1.0)
        decoder.deconvolutions[0].weight.copy_(torch.tensor([[[[1.0, -1.0], [2.0, 0.0]]]]))
        decoder.deconvolutions[0].bias.fill_(0.5)

    actual = decoder(torch.tensor([[1.0], [-1.0]]))

    # 2·1 + 1 = 3, then 3 · kernel + 0.5, which no ReLU may cut
    assert actual[0].tolist() == [[[3.5, -2.5], [6.5, 0.5]]]
    # 2·(-1) + 1 = -1, which ReLU cuts to 0; only the bias is left
    assert actual[1].tolist() == [[[0.5, 0.5], [0.5, 0.5]]]


def test_the_border_the_encoder_dropped_comes_from_the_bias() -> None:
    decoder = Decoder((1, 3, 2), (Conv(1, 2, 2),), 1, 0.1, generator())
    with torch.no_grad():
        decoder.linear.weight.fill_(1.0)
        decoder.deconvolutions[0].weight.fill_(1.0)
        decoder.deconvolutions[0].bias.fill_(0.25)

    # of 3 rows the stride of 2 reaches 2
    assert decoder(torch.ones(1, 1)).tolist() == [[[[1.25, 1.25], [1.25, 1.25], [0.25, 0.25]]]]


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "border"),
    [
        (4, 8, 4, 0),
        (2, 4, 2, 0),
        (1, 6, 2, 0),
        (3, 3, 1, 0),
        (2, 5, 2, 0),
        (4, 8, 4, 3),
        (16, 4, 2, 0),
    ],
)
def test_a_transposed_convolution_is_torchs_own(
    channels: int, kernel: int, stride: int, border: int
) -> None:
    own = TransposedConvolution(5, channels, kernel, stride, output_padding=border).double()
    plain = nn.ConvTranspose2d(5, channels, kernel, stride, output_padding=border).double()
    plain.load_state_dict(own.state_dict())
    x = torch.randn(3, 5, 4, 6, dtype=torch.float64, generator=generator(), requires_grad=True)

    actual, expected = own(x), plain(x)

    torch.testing.assert_close(actual, expected)
    upstream = torch.randn(expected.shape, dtype=torch.float64, generator=generator())
    torch.testing.assert_close(
        torch.autograd.grad(actual, [x, *own.parameters()], upstream),
        torch.autograd.grad(expected, [x, *plain.parameters()], upstream),
    )


def test_initial_weights() -> None:
    decoder = Decoder((4, 84, 84), ENCODERS["nature"], 8, 0.1, generator())

    # the encoder's fans in reverse: 64·9 + 64·9 = 1152; 32·16 + 64·16 = 1536; 4·64 + 32·64 = 2304
    for deconvolution, fans in zip(decoder.deconvolutions, (1152, 1536, 2304), strict=True):
        bound = math.sqrt(6 / fans)
        assert 0.99 * bound < float(deconvolution.weight.detach().abs().max()) <= bound + 1e-7
        assert float(deconvolution.weight.detach().std()) == pytest.approx(
            bound / math.sqrt(3), rel=0.03
        )
        assert not deconvolution.bias.any()
    assert float(decoder.linear.weight.detach().std()) == pytest.approx(0.1, rel=0.02)
    assert not decoder.linear.bias.any()


def test_initial_weights_without_a_std() -> None:
    decoder = Decoder((4, 84, 84), ENCODERS["nature"], 25, None, generator())

    for part in (decoder.linear.weight.detach(), decoder.linear.bias.detach()):
        assert 0.19 < float(part.abs().max()) <= 0.2  # uniform within ±1/√25
        assert float(part.std()) == pytest.approx(0.2 / math.sqrt(3), rel=0.04)
