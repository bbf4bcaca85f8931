"""The whole network: what it returns, how it starts, what it keeps."""

from typing import Literal

import pytest
import torch
from torch import Generator, Tensor

from idqn.config import AgentConfig
from idqn.networks import Ensemble, QNetwork, build_network, members
from idqn.types import QOutput

SMALL = AgentConfig(embedding_size=6, keys=5)
SHAPE = (2, 10, 11)


def network(seed: int = 0, config: AgentConfig = SMALL) -> QNetwork:
    built = build_network(config, SHAPE, 3, seed)
    assert isinstance(built, QNetwork)
    return built


def pixels(seed: int = 0, batch: int = 4) -> Tensor:
    generator = Generator().manual_seed(seed)
    return torch.randint(0, 256, (batch, *SHAPE), generator=generator, dtype=torch.uint8)


@torch.no_grad()
def test_output_is_named_and_shaped() -> None:
    out = network()(pixels())

    assert isinstance(out, QOutput)
    found = {name: part for name, part in out._asdict().items() if part is not None}
    shapes = {name: tuple(part.shape) for name, part in found.items()}
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
    weight = (out.embedding[:, None, None] * net.head.keys).sum(-1).exp()
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

    assert not torch.equal(network(0, uniform).head.values, network(1, uniform).head.values)


def test_weights_hold_all_that_playing_needs() -> None:
    trained = network(0, AgentConfig(embedding_size=6, keys=5, value_min=-3.0, value_max=9.0))
    trained.mean_image.copy_(pixels(9)[0])
    weights = trained.state_dict()

    assert {"mean_image", "head.values", "head.keys"} <= weights.keys()
    fresh = network(5)
    fresh.load_state_dict(weights)
    found = fresh(pixels())._asdict()
    for name, one in trained(pixels())._asdict().items():
        assert (one is None and found[name] is None) or torch.equal(one, found[name]), name
    assert found["attention"] is not None


def test_the_optimiser_sees_neither_values_nor_mean_image() -> None:
    learned = dict(network().named_parameters())

    assert "head.keys" in learned
    assert learned.keys().isdisjoint({"mean_image", "head.values"})


def test_action_parameters_have_a_row_per_action() -> None:
    net = network()
    few = dict(net.named_parameters())
    many = dict(build_network(SMALL, SHAPE, 7, 0).named_parameters())

    differing = {name for name in few if few[name].shape != many[name].shape}
    assert differing == net.action_parameters == {"head.keys"}
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

    torch.testing.assert_close(net.head.values, torch.linspace(-2, 4, 40))
    assert net.head.keys.shape == (4, 40, 32)
    assert float(net.head.keys.detach().std()) == pytest.approx(1.0, rel=0.04)
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


@pytest.mark.parametrize("decoder", ["vae", "dense-vae"])
@torch.no_grad()
def test_variational_networks_go_by_the_mean(decoder: Literal["vae", "dense-vae"]) -> None:
    config = AgentConfig(embedding_size=6, keys=5, decoder=decoder)
    net = network(config=config)
    out = net(pixels())

    mean, log_variance = net.encoder(net.normalize(pixels())).chunk(2, -1)
    assert mean.shape == log_variance.shape == (4, 6)
    assert torch.equal(out.embedding, mean)
    assert net.decoder is not None
    torch.testing.assert_close(out.reconstruction, net.decoder(mean))
    torch.testing.assert_close(out.q, net.head(mean).q)
    channels = [c.out_channels for c in net.encoder.convolutions]
    assert channels == ([64, 128] if decoder == "dense-vae" else [32, 64])


@torch.no_grad()
def test_without_a_decoder_nothing_is_reconstructed() -> None:
    with_one = network()
    net = network(config=AgentConfig(embedding_size=6, keys=5, decoder="none"))
    out = net(pixels())

    assert net.decoder is None
    assert out.reconstruction is None
    assert not [name for name in net.state_dict() if name.startswith("decoder")]
    assert torch.equal(out.q, with_one(pixels()).q)  # all else starts the same


@pytest.mark.parametrize("agent", ["ddqn", "c51", "noisy", "bootstrap"])
def test_action_parameters_of_other_agents(
    agent: Literal["ddqn", "c51", "noisy", "bootstrap"],
) -> None:
    config = AgentConfig(name=agent, embedding_size=6, decoder="none", heads=2)
    net = network(config=config)
    few = dict(net.named_parameters())
    many = dict(build_network(config, SHAPE, 7, 0).named_parameters())

    differing = {name for name in few if few[name].shape != many[name].shape}
    assert differing == net.action_parameters
    for name in differing:
        assert (len(few[name]), len(many[name])) == (3, 7)
        assert few[name].shape[1:] == many[name].shape[1:]


@torch.no_grad()
def test_an_ensemble_is_networks_that_share_nothing() -> None:
    config = AgentConfig(name="ensemble", embedding_size=6, decoder="none", heads=3)
    ensemble = build_network(config, SHAPE, 3, 0)
    assert isinstance(ensemble, Ensemble)
    own = members(ensemble)

    assert len(own) == 3
    weights = [member.encoder.convolutions[0].weight for member in own]
    assert not torch.equal(weights[0], weights[1])
    out, each = ensemble(pixels()), [member(pixels()) for member in own]
    assert out.head_q.shape == (4, 3, 3)
    for number, member in enumerate(each):
        assert torch.equal(out.head_q[..., number], member.q)
        assert torch.equal(out.embedding[:, 6 * number : 6 * (number + 1)], member.embedding)
    torch.testing.assert_close(out.q, sum(member.q for member in each) / 3)
    single = network()
    assert members(single) == [single]
