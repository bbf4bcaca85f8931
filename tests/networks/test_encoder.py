"""Sizes, initial weights and forward pass of the encoder."""

import math

import pytest
import torch
from torch import Generator

from idqn.errors import UserError
from idqn.networks.encoder import (
    DENSE_ENCODERS,
    ENCODERS,
    Conv,
    Encoder,
    choose_layers,
    init_convolution,
    init_linear,
    layer_sizes,
    smallest_frame,
)


def generator(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@pytest.mark.parametrize(
    ("height", "width", "encoder", "sizes"),
    [
        # (84-8)/4+1 = 20; (20-4)/2+1 = 9; (9-3)/1+1 = 7
        (84, 84, "nature", [(84, 84), (20, 20), (9, 9), (7, 7)]),
        # 202/4 = 50.5, so 51 and 152/4+1 = 39; 47/2 = 23.5, so 24 and 35/2 = 17.5, so 18; 22, 16
        (210, 160, "nature", [(210, 160), (51, 39), (24, 18), (22, 16)]),
        # 29/4 = 7.25, so 8 and 45/4 = 11.25, so 12; 3 and 5; 1 and 3
        (37, 53, "nature", [(37, 53), (8, 12), (3, 5), (1, 3)]),
        # too small for nature: 29/2 = 14.5, so 15; 11/2 = 5.5, so 6; 4
        (33, 33, "small", [(33, 33), (15, 15), (6, 6), (4, 4)]),
        # 16/2 = 8, so 9 and 15/2 = 7.5, so 8; 5/2 = 2.5, so 3 and 3; 1 and 1
        (20, 19, "small", [(20, 19), (9, 8), (3, 3), (1, 1)]),
        # too small for small: 10-2 = 8; 8-2 = 6
        (10, 10, "tiny", [(10, 10), (8, 8), (6, 6)]),
        (5, 90, "tiny", [(5, 90), (3, 88), (1, 86)]),
    ],
)
def test_layer_sizes(height: int, width: int, encoder: str, sizes: list[tuple[int, int]]) -> None:
    layers = choose_layers("auto", height, width)

    assert layers == ENCODERS[encoder]
    assert layer_sizes(layers, height, width) == sizes


@pytest.mark.parametrize(
    "shape", [(4, 84, 84), (12, 210, 160), (2, 33, 33), (4, 10, 10), (3, 37, 53), (1, 19, 20)]
)
def test_sizes_are_those_of_the_convolutions(shape: tuple[int, int, int]) -> None:
    layers = choose_layers("auto", *shape[1:])
    encoder = Encoder(shape, layers, 3, 0.1, generator())
    x = torch.rand(2, *shape, generator=generator())

    seen = []
    for convolution in encoder.convolutions:
        x = convolution(x)
        seen.append(tuple(x.shape[2:]))

    assert seen == layer_sizes(layers, *shape[1:])[1:]
    assert encoder(torch.zeros(2, *shape)).shape == (2, 3)


def test_the_papers_convolutions() -> None:
    assert ENCODERS["nature"] == (Conv(32, 8, 4), Conv(64, 4, 2), Conv(64, 3, 1))


@pytest.mark.parametrize(("name", "smallest"), [("nature", 36), ("small", 18), ("tiny", 5)])
def test_smallest_frame_leaves_one_pixel(name: str, smallest: int) -> None:
    layers = ENCODERS[name]

    assert smallest_frame(layers) == smallest
    assert layer_sizes(layers, smallest, smallest)[-1] == (1, 1)
    assert layer_sizes(layers, smallest - 1, smallest)[-1][0] < 1


@pytest.mark.parametrize(
    ("height", "width", "name"),
    [
        (36, 36, "nature"),
        (35, 200, "small"),
        (200, 35, "small"),
        (18, 18, "small"),
        (17, 84, "tiny"),
        (84, 17, "tiny"),
        (5, 5, "tiny"),
    ],
)
def test_auto_takes_the_first_that_fits_both_ways(height: int, width: int, name: str) -> None:
    assert choose_layers("auto", height, width) == ENCODERS[name]


@pytest.mark.parametrize("name", ENCODERS)
def test_a_named_encoder_is_taken_at_its_word(name: str) -> None:
    assert choose_layers(name, 84, 84) == ENCODERS[name]


@pytest.mark.parametrize(("height", "width"), [(20, 84), (84, 20)])
def test_frames_too_small_for_a_named_encoder_are_refused_with_advice(
    height: int, width: int
) -> None:
    with pytest.raises(UserError) as caught:
        choose_layers("nature", height, width)

    message = str(caught.value)
    assert f"{height}x{width}" in message
    assert "'nature'" in message
    assert "36 pixels" in message
    assert "--env.frame-height" in message
    assert "--agent.encoder auto" in message


@pytest.mark.parametrize("encoder", ["auto", "tiny"])
def test_frames_too_small_for_all_are_told_to_grow(encoder: str) -> None:
    with pytest.raises(UserError) as caught:
        choose_layers(encoder, 4, 30)

    message = str(caught.value)
    assert "4x30" in message
    assert "5 pixels" in message
    assert "--env.frame-width" in message
    assert "auto" not in message  # would not help


def test_forward_by_hand() -> None:
    encoder = Encoder((1, 1, 2), (Conv(1, 1, 1),), 1, 0.1, generator())
    assert encoder.linear is not None
    with torch.no_grad():
        encoder.convolutions[0].weight.fill_(-1.0)
        encoder.linear.weight.copy_(torch.tensor([[3.0, -4.0]]))
        encoder.linear.bias.fill_(0.5)

    # convolution: -1, 2; ReLU: 0, 2; linear: 3·0 - 4·2 + 0.5, and no ReLU after it
    assert encoder(torch.tensor([[[[1.0, -2.0]]]])).tolist() == [[-7.5]]


def test_convolutions_are_xavier_uniform() -> None:
    layer = torch.nn.Conv2d(4, 32, 8, 4)
    init_convolution(layer, generator())

    # √(6 / (fan in + fan out)) = √(6 / (4·64 + 32·64)) = √(6/2304) = 0.0510310
    weight, bound = layer.weight.detach(), 0.0510310
    assert 0.99 * bound < float(weight.max()) <= bound + 1e-7
    assert 0.99 * bound < float(-weight.min()) <= bound + 1e-7
    assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.03)
    assert float(weight.mean()) == pytest.approx(0, abs=0.0015)  # 4.5 deviations of the mean
    assert not layer.bias.any()


def test_linear_layers_are_normal_with_the_std_given() -> None:
    layer = torch.nn.Linear(200, 100)
    init_linear(layer.weight, layer.bias, 200, 0.1, generator())

    weight = layer.weight.detach()
    assert float(weight.std()) == pytest.approx(0.1, rel=0.02)  # 4 deviations of 20,000 draws
    assert float(weight.mean()) == pytest.approx(0, abs=0.003)
    assert float(weight.abs().max()) > 0.3  # a normal has tails, a uniform of this std none
    assert not layer.bias.any()


def test_every_layer_of_the_encoder_is_initialised() -> None:
    encoder = Encoder((4, 84, 84), ENCODERS["nature"], 8, 0.1, generator())

    # fans: 4·64 + 32·64 = 2304; 32·16 + 64·16 = 1536; 64·9 + 64·9 = 1152
    for convolution, fans in zip(encoder.convolutions, (2304, 1536, 1152), strict=True):
        bound = math.sqrt(6 / fans)
        assert 0.99 * bound < float(convolution.weight.detach().abs().max()) <= bound + 1e-7
        assert not convolution.bias.any()
    assert float(encoder.linear.weight.detach().std()) == pytest.approx(0.1, rel=0.02)
    assert not encoder.linear.bias.any()


def test_without_a_std_weights_and_biases_are_uniform() -> None:
    layer = torch.nn.Linear(100, 200)
    init_linear(layer.weight, layer.bias, 100, None, generator())

    for part in (layer.weight.detach(), layer.bias.detach()):  # within ±1/√100
        assert 0.09 < float(part.max()) <= 0.1
        assert 0.09 < float(-part.min()) <= 0.1
    assert float(layer.weight.detach().std()) == pytest.approx(0.1 / math.sqrt(3), rel=0.02)
    assert float(layer.weight.detach().mean()) == pytest.approx(0, abs=0.0016)  # 4 deviations


def test_without_an_embedding_size_the_features_are_the_embedding() -> None:
    whole = Encoder((2, 33, 33), ENCODERS["small"], 5, 0.1, generator())
    bare = Encoder((2, 33, 33), ENCODERS["small"], None, 0.1, generator())
    x = torch.rand(3, 2, 33, 33, generator=generator())

    features = bare(x)

    assert bare.linear is None
    assert whole.image_shape == bare.image_shape == (64, 4, 4)
    assert (whole.embedding_size, bare.embedding_size) == (5, 64 * 4 * 4)
    assert features.shape == (3, bare.embedding_size)
    assert float(features.detach().min()) == 0  # after a ReLU
    assert whole.linear is not None
    torch.testing.assert_close(whole(x), whole.linear(features))


@pytest.mark.parametrize(
    ("height", "width", "encoder", "sizes"),
    [
        # (84-8)/2+1 = 39; 33/2 = 16.5, so 17; 11/2 = 5.5, so 6; 2/2+1 = 2
        (84, 84, "nature", [(84, 84), (39, 39), (17, 17), (6, 6), (2, 2)]),
        # 62-8 = 54, so 28; 22/2 = 11, so 12; 6/2 = 3, so 4; 1
        (62, 62, "nature", [(62, 62), (28, 28), (12, 12), (4, 4), (1, 1)]),
        (61, 84, "small", [(61, 84), (29, 41), (13, 19), (11, 17)]),
        (10, 10, "tiny", [(10, 10), (8, 8), (6, 6)]),
    ],
)
def test_dense_layer_sizes(
    height: int, width: int, encoder: str, sizes: list[tuple[int, int]]
) -> None:
    layers = choose_layers("auto", height, width, dense=True)

    assert layers == DENSE_ENCODERS[encoder]
    assert layer_sizes(layers, height, width) == sizes
    assert choose_layers(encoder, height, width, dense=True) == layers


def test_dense_encoders_are_wider() -> None:
    assert DENSE_ENCODERS.keys() == ENCODERS.keys()
    for name, layers in DENSE_ENCODERS.items():
        for dense, plain in zip(layers, ENCODERS[name], strict=False):
            assert dense.channels == 2 * plain.channels
        assert len(layers) >= len(ENCODERS[name])


def test_frames_too_small_for_a_dense_encoder_are_refused_with_its_own_size() -> None:
    with pytest.raises(UserError, match=r"'nature' encoder.* 62 pixels"):
        choose_layers("nature", 61, 84, dense=True)
