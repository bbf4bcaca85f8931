"""The whole network: what it returns, how it starts, what it keeps."""

import pytest
import torch
from torch import Generator, Tensor

from idqn.config import AgentConfig
from idqn.networks import IDQN, build_network
from idqn.types import QOutput

SMALL = AgentConfig(embedding_size=6, keys=5)
SHAPE = (2, 10, 11)


def network(seed: int = 0, config: AgentConfig = SMALL) -> IDQN:
    return build_network(config, SHAPE, 3, seed)


def pixels(seed: int = 0, batch: int = 4) -> Tensor:
    generator = Generator().manual_seed(seed)
    return torch.randint(0, 256, (batch, *SHAPE), generator=generator, dtype=torch.uint8)


@torch.no_grad()
def test_output_is_named_and_shaped() -> None:
    out = network()(pixels())

    assert isinstance(out, QOutput)
    shapes = {name: tuple(part.shape) for name, part in out._asdict().items()}
    assert shapes == {
        "embedding": (4, 6),
        "log_attention": (4, 3, 5),
        "attention": (4, 3, 5),
        "q": (4, 3),
        "uncertainty": (4, 3),
        "reconstruction": (4, *SHAPE),
    }


@torch.no_grad()
def test_parts_fit_together() -> None:
    net = network()
    out = net(pixels())

    values = torch.linspace(-25, 25, 5)
    weight = (out.embedding[:, None, None] * net.memory.keys).sum(-1).exp()
    torch.testing.assert_close(out.attention, weight / weight.sum(-1, keepdim=True))
    torch.testing.assert_close(out.q, (out.attention * values).sum(-1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(out.reconstruction, net.decoder(out.embedding))


@torch.no_grad()
def test_decoding_is_optional_and_changes_nothing_else() -> None:
    net = network()
    full, bare = net(pixels(), decode=True), net(pixels(), decode=False)

    assert full.reconstruction is not None
    assert bare.reconstruction is None
    for name in ("embedding", "log_attention", "attention", "q", "uncertainty"):
        assert torch.equal(getattr(full, name), getattr(bare, name))


def test_mean_image_is_subtracted_before_dividing_by_255() -> None:
    net = network()
    net.mean_image.fill_(100.0)
    net.mean_image[1, 2, 3] = 0.5
    observation = torch.full((1, *SHAPE), 151, dtype=torch.uint8)
    observation[0, 0, 0, 0] = 49

    normal = net.normalize(observation)

    assert float(normal[0, 0, 5, 5]) == pytest.approx(0.2)  # (151 - 100) / 255
    assert float(normal[0, 0, 0, 0]) == pytest.approx(-0.2)  # (49 - 100) / 255: no wrap-around
    assert float(normal[0, 1, 2, 3]) == pytest.approx(0.590196)  # (151 - 0.5) / 255


def test_without_a_mean_image_pixels_are_divided_by_255() -> None:
    net = network()

    assert not net.mean_image.any()
    normal = net.normalize(torch.tensor([0, 51, 255], dtype=torch.uint8)[:, None, None, None])
    torch.testing.assert_close(normal[:, 0, 0, 0], torch.tensor([0.0, 0.2, 1.0]))


@torch.no_grad()
def test_the_network_sees_differences_from_the_mean_image() -> None:
    plain, shifted = network(), network()
    shifted.mean_image.fill_(30.0)
    dark = pixels() // 2

    assert torch.equal(plain(dark).q, shifted(dark + 30).q)
    assert not torch.equal(plain(dark).q, shifted(dark).q)


def test_same_seed_same_weights_whatever_torch_drew_before() -> None:
    uniform = AgentConfig(embedding_size=6, keys=5, value_spacing="uniform")
    torch.manual_seed(1)
    first = network(7, uniform).state_dict()
    torch.manual_seed(2)
    torch.rand(5)
    second = network(7, uniform).state_dict()

    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name]), name


def test_other_seed_other_weights() -> None:
    first, second = network(0), network(1)

    for (name, one), (_, other) in zip(
        first.named_parameters(), second.named_parameters(), strict=True
    ):
        assert torch.equal(one, other) == name.endswith("bias"), name  # biases start at 0


def test_uniform_values_depend_on_the_seed() -> None:
    uniform = AgentConfig(embedding_size=6, keys=5, value_spacing="uniform")

    assert not torch.equal(network(0, uniform).memory.values, network(1, uniform).memory.values)


def test_weights_hold_all_that_playing_needs() -> None:
    trained = network(0, AgentConfig(embedding_size=6, keys=5, value_min=-3.0, value_max=9.0))
    trained.mean_image.copy_(pixels(9)[0])
    weights = trained.state_dict()

    assert {"mean_image", "memory.values", "memory.keys"} <= weights.keys()
    fresh = network(5)
    fresh.load_state_dict(weights)
    for one, other in zip(trained(pixels()), fresh(pixels()), strict=True):
        assert torch.equal(one, other)


def test_the_optimiser_sees_neither_values_nor_mean_image() -> None:
    learned = dict(network().named_parameters())

    assert "memory.keys" in learned
    assert learned.keys().isdisjoint({"mean_image", "memory.values"})


def test_action_parameters_have_a_row_per_action() -> None:
    few = dict(build_network(SMALL, SHAPE, 3, 0).named_parameters())
    many = dict(build_network(SMALL, SHAPE, 7, 0).named_parameters())

    differing = {name for name in few if few[name].shape != many[name].shape}
    assert differing == IDQN.action_parameters
    for name in differing:
        assert (len(few[name]), len(many[name])) == (3, 7)


def test_config_reaches_the_parts() -> None:
    config = AgentConfig(
        embedding_size=32,
        keys=40,
        value_min=-2.0,
        value_max=4.0,
        key_init_std=1.0,
        linear_init_std=0.5,
        encoder="tiny",
    )
    net = build_network(config, (4, 40, 40), 4, 0)

    torch.testing.assert_close(net.memory.values, torch.linspace(-2, 4, 40))
    assert net.memory.keys.shape == (4, 40, 32)
    assert float(net.memory.keys.detach().std()) == pytest.approx(1.0, rel=0.04)
    assert float(net.encoder.linear.weight.detach().std()) == pytest.approx(0.5, rel=0.02)
    assert float(net.decoder.linear.weight.detach().std()) == pytest.approx(0.5, rel=0.02)
    assert [c.kernel_size for c in net.encoder.convolutions] == [(3, 3), (3, 3)]


def test_size_of_the_papers_network() -> None:
    net = build_network(AgentConfig(), (4, 84, 84), 9, 0)

    parameters = sum(p.numel() for p in net.parameters())

    # convolutions: 32·4·64 + 32 = 8,224; 64·32·16 + 64 = 32,832; 64·64·9 + 64 = 36,928
    # to the embedding of 256 from 64·7·7 = 3,136: 802,816 + 256; and back: 802,816 + 3,136
    # deconvolutions: 64·64·9 + 64 = 36,928; 64·32·16 + 32 = 32,800; 32·4·64 + 4 = 8,196
    # keys: 9·20·256 = 46,080
    assert parameters == (
        8_224 + 32_832 + 36_928 + 803_072 + 805_952 + 36_928 + 32_800 + 8_196 + 46_080
    )
