"""Where things really are: in MiniPacman that is known, so explanations can be held against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from idqn.agent import Agent
from idqn.envs.mini_pacman import COLOURS, ENV_ID, MAZE_CELLS, RENDER_SCALE
from idqn.errors import UserError
from idqn.explain.decoding import has_decoder, seen_by_attention
from idqn.explain.deletion import detail
from idqn.explain.faithfulness import RESAMPLES, spread
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.saliency import METHODS, saliency_maps
from idqn.explain.states import States, about, collect

Floats = NDArray[np.float64]

GAMES = 30
MAPPED_STATES = 48
OBJECTS = ("pacman", "ghost", "pellets", "walls", "floor")
MAPS = (*METHODS, "picture detail")
NEAR_CELLS = 2
PICTURES = ("decoded states", "attended keys", "attended keys, as attention sees them")
MEASURES = ("nearness", "brightness")
PLACES = ("here", "elsewhere", "difference")


@dataclass(frozen=True, eq=False, repr=False)
class GroundTruth(Result):
    """Numbers with an interval are [..., 3]: the value, and ends of its 95 % bootstrap interval."""

    kind: ClassVar[str] = "ground-truth"
    states: int
    games: int
    mapped_states: int
    maps: tuple[str, ...]
    """Saliency by all methods, and how much blurring changes the frames, which knows no agent."""
    objects: tuple[str, ...]
    covers: Floats  # [objects], share of the frame
    density: Floats
    """[maps, objects, 3]: share of the saliency that falls on an object, over the share of the
    frame that it covers. 1 is a map that is the same everywhere; over states."""
    pictures: tuple[str, ...]
    """Of which the newest frame, minus the mean image, is held against pacman's place: decoded
    states; decoded keys, of each state the most attended one of the action taken; and what
    attention can tell of these keys, decoded."""
    places: Floats | None
    """[measures, pictures, 3 places, 3], over games. Measures: share of states in which the
    picture's brightest pixel is within 2 cells of pacman; brightness of pacman's pixels, in
    standard deviations of the picture. Places: where pacman is, where pacman is in all states of
    the other games, and the difference. None without a decoder."""


def ground_truth(
    agent: Agent, states: States | None = None, progress: Progress = silent
) -> GroundTruth:
    """Of more games than others need, because neighbouring states are much alike."""
    if agent.config.env.id != ENV_ID:
        raise UserError(
            f"only MiniPacman tells where its objects are, and this agent plays "
            f"{agent.config.env.id}; train one with `idqn train {ENV_ID} --preset quick`"
        )
    states = collect(agent, GAMES, progress=progress) if states is None else states
    index = spread(len(states), MAPPED_STATES)
    masks = object_masks(states, index)
    observations, actions = states.observations(index), states.action[index]
    density = [_density(detail(observations), masks)]
    for number, method in enumerate(METHODS):
        progress("mapping states", number, len(METHODS))
        density.insert(-1, _density(saliency_maps(agent, observations, actions, method), masks))
    pictures = has_decoder(agent) and states.attention is not None
    return GroundTruth(
        about(agent),
        states=len(states),
        games=states.episodes,
        mapped_states=len(index),
        maps=MAPS,
        objects=OBJECTS,
        covers=masks.mean((1, 2, 3)),
        density=np.array(density),
        pictures=PICTURES,
        places=_places(agent, states) if pictures else None,
    )


def object_masks(states: States, index: NDArray[np.integer]) -> Floats:
    """How much of each pixel shows each object, [objects, n, h, w], in the agent's frames."""
    height, width = states.frames.shape[-2:]
    masks = []
    for i in index:
        screen = states.screen(int(i))[::RENDER_SCALE, ::RENDER_SCALE]
        shown = [(screen == np.array(COLOURS[name], np.uint8)).all(-1) for name in OBJECTS[:-1]]
        layers = [*shown, ~np.any(shown, 0)]
        sized = [
            cv2.resize(layer.astype(np.float64), (width, height), interpolation=cv2.INTER_AREA)
            for layer in layers
        ]
        masks.append(sized)
    found: Floats = np.array(masks).swapaxes(0, 1)
    return found


def ratio(above: Floats, below: Floats) -> Floats:
    """Sum over sum, of the last axis, with its 95 % percentile bootstrap interval [..., 3]."""
    n = above.shape[-1]
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), RESAMPLES)  # [R, n]
    resampled = (above @ drawn.T) / np.maximum(below @ drawn.T, 1e-12)
    value = above.sum(-1) / np.maximum(below.sum(-1), 1e-12)
    return np.stack([value, *np.quantile(resampled, [0.025, 0.975], axis=-1)], -1)


def _density(maps: NDArray[np.float32], masks: Floats) -> Floats:
    """[objects, 3]; a map that is 0 everywhere counts as even."""
    mass = maps.astype(np.float64).reshape(len(maps), -1)
    total = mass.sum(1, keepdims=True)
    share = np.where(total > 0, mass / np.where(total > 0, total, 1), 1 / mass.shape[1])
    flat = masks.reshape(*masks.shape[:2], -1)
    return ratio((flat * share).sum(-1), flat.mean(-1))


def _places(agent: Agent, states: States) -> Floats:
    assert states.attention is not None
    every = np.arange(len(states))
    pacman = object_masks(states, every)[OBJECTS.index("pacman")].reshape(len(states), -1)
    most = states.attention[every, states.action].argmax(-1)
    embeddings = torch.from_numpy(states.embedding)
    keys = agent.keys.cpu()
    seen = seen_by_attention(keys, float(embeddings.norm(dim=-1).mean()))
    found = [
        _two_places(_newest(agent, decoded), pacman, states)
        for decoded in (embeddings, keys[states.action, most], seen[states.action, most])
    ]
    return np.array(found).swapaxes(0, 1)


def _newest(agent: Agent, embeddings: Tensor) -> Floats:
    """The newest frame of decoded embeddings, minus the mean image, grey: [n, h, w]."""
    mean = agent.network.get_buffer("mean_image")
    channels = agent.spec.frame_shape[0]
    chunks = [
        (agent.decode(some) - mean)[:, -channels:].mean(1) for some in torch.split(embeddings, 256)
    ]
    found: Floats = torch.cat(chunks).double().cpu().numpy()
    return found


def _two_places(pictures: Floats, pacman: Floats, states: States) -> Floats:
    """[2 measures, 3 places, 3] of pictures [n, h, w] and pacman's pixels [n, h*w]."""
    n, height, width = pictures.shape
    flat = pictures.reshape(n, -1)
    flat = (flat - flat.mean(1, keepdims=True)) / np.maximum(flat.std(1, keepdims=True), 1e-12)
    pacman = pacman / np.maximum(pacman.sum(1, keepdims=True), 1e-12)
    rows, columns = np.divmod(np.arange(height * width), width)
    cells = np.stack([rows / height, columns / width], 1) * MAZE_CELLS
    brightest, middle = cells[flat.argmax(1)], pacman @ cells  # [n, 2]
    distance = np.abs(brightest[:, None] - middle).max(-1)  # [n, n], of picture i and pacman of j
    near = distance <= NEAR_CELLS
    brightness = flat @ pacman.T
    other = states.episode[:, None] != states.episode
    game = np.eye(states.episodes)[states.episode]  # [n, games]
    found = []
    for value in (near.astype(np.float64), brightness):
        here = np.diagonal(value)
        elsewhere = (value * other).sum(1) / np.maximum(other.sum(1), 1)
        kinds = np.stack([here, elsewhere, here - elsewhere])
        found.append(ratio(kinds @ game, game.sum(0)))
    return np.array(found)
