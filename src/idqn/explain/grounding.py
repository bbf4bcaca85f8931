"""Saliency held against the game itself: a map says how much an object matters, and the game can be
played without it.

An object is taken away in the game (or, where that cannot be, moved), both games go on with the
same actions until the agent's whole stack of frames shows it, and the change of the value of the
action it chooses is set beside the saliency that lay on the object's pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.envs.edits import Box, Params
from idqn.envs.single import make_editable
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED
from idqn.explain.deletion import detail, random_places
from idqn.explain.faithfulness import spread
from idqn.explain.progress import Progress, silent
from idqn.explain.results import Result
from idqn.explain.saliency import METHODS, saliency_maps
from idqn.explain.sanity import correlation, ranks
from idqn.explain.states import about
from idqn.explain.twins import Game, Trajectory, record, walk

Floats = NDArray[np.float64]

RIVALS = ("picture detail", "area", "random")
"""What knows no agent: how much blurring changes an object's pixels, how many they are, and a
random map in spots."""
MEASURES = ("total", "density")
ACROSS = ("pooled", "within states")
DESTINATIONS = 3  # places to which what cannot be taken away is moved
FEWEST = 3  # objects of a state, for a correlation within it
RESAMPLES = 1_000


def _off(params: Params) -> bool:
    return params["on"] is False


def _any(params: Params) -> bool:
    return True


KINDS: dict[str, Callable[[Params], bool]] = {
    **dict.fromkeys(("pellet", "power_pill", "egg", "invader", "shield"), _off),
    **dict.fromkeys(("tile", "floe_visited"), _any),
    **dict.fromkeys(("ghost", "alien", "car", "floe", "ball", "enemy", "sprite"), _any),
}
"""Edits that take an object away, mark it as done with, or move it; the agent's own figure is no
object."""


@dataclass(frozen=True, eq=False)
class Grounding(Result):
    """N pairs of a state and an object in it. Numbers with an interval are [..., 3]: the value,
    and ends of its 95 % bootstrap interval, for which whole states are resampled."""

    kind: ClassVar[str] = "grounding"
    games: int
    states: int
    settle: int
    methods: tuple[str, ...]
    rivals: tuple[str, ...]
    objects: tuple[str, ...]
    """Names of edits."""
    state: NDArray[np.int64]  # [N], from 0
    object: NDArray[np.int64]  # [N], in `objects`
    change: Floats  # [N], |change of Q| of the chosen action, mean over destinations
    mass: Floats  # [methods and rivals, N], sum over the object's pixels
    area: Floats  # [N], pixels of the observation, in parts
    correlation: Floats  # [ACROSS, MEASURES, methods and rivals, 3]; NaN: too few objects a state
    gain: Floats  # [ACROSS, MEASURES, methods, rivals, 3], of a method over a rival

    def beats(self, method: str, across: str = ACROSS[0], measure: str = MEASURES[0]) -> bool:
        """Better than picture detail and than area, and above 0, intervals and all."""
        a, m, i = ACROSS.index(across), MEASURES.index(measure), self.methods.index(method)
        rivals = [self.rivals.index(name) for name in RIVALS[:2]]
        low = [self.correlation[a, m, i, 1], *self.gain[a, m, i, rivals, 1]]
        return all(value > 0 for value in low)


def grounding(
    agent: Agent,
    seed: int = EVALUATION_SEED,
    states: int = 24,
    objects: int = 10,
    games: int = 3,
    max_steps: int = 1_000,
    progress: Progress = silent,
) -> Grounding:
    """Look at up to `objects` objects in each of `states` moments of the agent's own games."""
    if states < 2 or objects < 1:
        raise UserError(
            f"nothing is held against the game in {states} states with {objects} objects each; "
            f"take at least 2 states and 1 object"
        )
    env = make_editable(agent.config.env)
    try:
        kinds = [name for name in env.edits if name in KINDS]
        if not kinds:
            raise UserError(
                f"nothing in {agent.config.env.id} can be taken away or moved by name; expected "
                f"MiniPacman, MsPacman, Alien, Freeway, Frostbite, Pong, Qbert, SpaceInvaders or "
                f"Venture"
            )
        played = [record(agent, env, seed + i, max_steps, progress) for i in range(games)]
        made = _edited(agent, env, played, kinds, states, objects, seed, progress)
    finally:
        env.close()
    found = _Pairs(agent, made, seed, progress)
    correlations, gains = correlate(found.change, found.scores, found.state)
    return Grounding(
        about(agent),
        games=len(played),
        states=len(made),
        settle=env.settle_steps,
        methods=METHODS,
        rivals=RIVALS,
        objects=tuple(kinds),
        state=found.state,
        object=np.array([kinds.index(each.kind) for one in made for each in one.objects]),
        change=found.change,
        mass=found.scores[0],
        area=found.area,
        correlation=correlations,
        gain=gains,
    )


class _Object(NamedTuple):
    kind: str
    cover: NDArray[np.float32]  # [h, w], share of each pixel that it covers in some frame
    edited: NDArray[np.uint8]  # [destinations, C, h, w]


class _State(NamedTuple):
    observation: NDArray[np.uint8]  # [C, h, w], unedited
    objects: tuple[_Object, ...]


def _edited(
    agent: Agent,
    env: Game,
    played: list[Trajectory],
    kinds: list[str],
    count: int,
    objects: int,
    seed: int,
    progress: Progress,
) -> list[_State]:
    """Moments at even distances, with their objects; those without any are left out."""
    settle = env.settle_steps
    moments = [(g, t) for g, game in enumerate(played) for t in range(len(game) - settle)]
    chosen = [moments[i] for i in spread(len(moments), count)] if moments else []
    rng = np.random.default_rng(seed)
    made = []
    for number, game in enumerate(played):
        for step in walk(env, game, [t for g, t in chosen if g == number]):
            given = game.actions[step : step + settle].tolist()
            state = _at_moment(agent, env, given, _draw(env, kinds, objects, rng))
            if state.objects:
                made.append(state)
            progress("taking objects away", len(made), len(chosen))
    if len(made) < 2:
        raise UserError(
            f"in {len(chosen)} moments of the agent's {len(played)} games, {len(made)} have an "
            f"object that can be taken away or moved; let it play more steps, or choose another "
            f"seed"
        )
    return made


def _draw(
    env: Game, kinds: list[str], count: int, rng: np.random.Generator
) -> list[tuple[str, list[Params]]]:
    """So many objects of the present moment, of each kind in turn, and edits of each."""
    found: list[Iterator[tuple[str, list[Params]]]] = []
    for name in kinds:
        by_place: dict[Box, list[Params]] = {}
        for params in env.choices(name):
            boxes = env.region(name, **params) if KINDS[name](params) else ()
            if boxes:  # the first is where it is now
                by_place.setdefault(boxes[0], []).append(params)
        each = list(by_place.values())
        order = rng.permutation(len(each))
        picked = [[each[i][j] for j in rng.permutation(len(each[i]))] for i in order]
        found.append(iter([(name, params[:DESTINATIONS]) for params in picked]))
    drawn: list[tuple[str, list[Params]]] = []
    while found and len(drawn) < count:
        for kind in list(found):
            one = next(kind, None)
            if one is None:
                found.remove(kind)
            elif len(drawn) < count:
                drawn.append(one)
    return drawn


def _at_moment(
    agent: Agent, env: Game, given: list[int], drawn: list[tuple[str, list[Params]]]
) -> _State:
    channels, height, width = agent.spec.frame_shape
    scale = height / env.screen_size[0], width / env.screen_size[1]
    here = env.objects()
    at = [env.region(name, **choices[0])[0] for name, choices in drawn]
    snapshot = env.save()
    seen: list[dict[str, Box]] = []
    for action in given:
        env.step(action)
        seen.append(env.objects())
    plain = env.observation
    env.restore(snapshot)
    seen = seen[-agent.config.env.frame_stack :]
    trials = [[(name, params)] for name, choices in drawn for params in choices]
    tried = iter(list(env.try_edits(trials, given)))
    found = []
    for (name, choices), box in zip(drawn, at, strict=True):
        settled = [next(tried) for _ in choices]
        edited = [
            each.observation
            for each in settled
            # what the game has removed by itself is not to be seen
            if not each.terminated | each.truncated
            and (each.observation[-channels:] != plain[-channels:]).any()
        ]
        moving = next((who for who, place in here.items() if place == box), None)
        boxes = [box] if moving is None else [each[moving] for each in seen if moving in each]
        cover = covered(boxes, scale, (height, width))
        if edited and cover.any():
            found.append(_Object(name, cover, np.stack(edited)))
    return _State(plain, tuple(found))


def covered(
    boxes: list[Box], scale: tuple[float, float], shape: tuple[int, int]
) -> NDArray[np.float32]:
    """Of each pixel [h, w], the share that is within a box of the screen."""

    def along(first: int, end: int, times: float, size: int) -> NDArray[np.float32]:
        pixels = np.arange(size)
        overlap = np.minimum(end * times, pixels + 1) - np.maximum(first * times, pixels)
        return np.clip(overlap, 0, 1).astype(np.float32)

    cover = np.zeros(shape, np.float32)
    for top, left, bottom, right in boxes:
        rows = along(top, bottom, scale[0], shape[0])
        columns = along(left, right, scale[1], shape[1])
        cover = np.maximum(cover, rows[:, None] * columns)
    return cover


class _Pairs:
    """What the agent says of them."""

    def __init__(
        self, agent: Agent, made: list[_State], seed: int, progress: Progress = silent
    ) -> None:
        observations = np.stack([one.observation for one in made])
        out = agent.look(observations, decode=False)
        action, q = agent.choose(out), out.q.cpu().numpy().astype(np.float64)
        maps: dict[str, NDArray[np.floating]] = {}
        for number, method in enumerate(METHODS):
            progress("maps of the chosen actions", number, len(METHODS))
            maps[method] = saliency_maps(agent, observations, action, method)
        maps["picture detail"] = detail(observations)
        maps["area"] = np.ones_like(maps["picture detail"])
        maps["random"] = random_places(*maps["area"].shape, seed)
        change, mass, area = [], [], []
        for i, one in enumerate(made):
            edited = np.concatenate([each.edited for each in one.objects])
            said = agent.look(edited, decode=False).q.cpu().numpy()[:, action[i]]
            ends = np.cumsum([len(each.edited) for each in one.objects])[:-1]
            for each, values in zip(one.objects, np.split(said, ends), strict=True):
                change.append(float(np.abs(values - q[i, action[i]]).mean()))
                cover = each.cover.astype(np.float64)
                mass.append([float((maps[name][i] * cover).sum()) for name in (*METHODS, *RIVALS)])
                area.append(float(cover.sum()))
        self.change, self.area = np.array(change), np.array(area)
        self.state = np.repeat(np.arange(len(made)), [len(one.objects) for one in made])
        total = np.array(mass).T  # [methods and rivals, N]
        density = total / self.area
        place = (*METHODS, *RIVALS).index("area")
        density[place] = self.area  # its own density says nothing
        self.scores = np.stack([total, density])


def correlate(change: Floats, scores: Floats, state: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Rank correlations of changes [N] with scores [MEASURES, K, N]: pooled over all pairs, and
    within states [N], on average. [ACROSS, MEASURES, K, 3], and of all but the last few K, which
    are the rivals, the gain over each of these; all from the same resamples of states."""
    measures, count, _ = scores.shape
    flat = scores.reshape(measures * count, -1)
    members = [np.flatnonzero(state == each) for each in np.unique(state)]
    enough = [one for one in members if len(one) >= FEWEST]
    within = np.array([_spearman(change[one], flat[:, one]) for one in enough])
    within = within.reshape(-1, len(flat))  # [states, measures * K]
    known = [i for i, one in enumerate(members) if len(one) >= FEWEST]
    rng = np.random.default_rng(0)
    samples = np.full((RESAMPLES + 1, len(ACROSS), len(flat)), np.nan)
    for r in range(RESAMPLES + 1):
        # the first is as it was found
        drawn = rng.integers(len(members), size=len(members)) if r else np.arange(len(members))
        pairs = np.concatenate([members[i] for i in drawn])
        samples[r, 0] = _spearman(change[pairs], flat[:, pairs])
        times = np.bincount(drawn, minlength=len(members))[known]
        if times.sum():
            samples[r, 1] = times @ within / times.sum()
    samples = samples.reshape(-1, len(ACROSS), measures, count)
    methods = count - len(RIVALS)
    gains = samples[..., :methods, None] - samples[..., None, methods:]
    return _with_interval(samples), _with_interval(gains)


def _spearman(change: Floats, scores: Floats) -> Floats:
    """With each of [K, n]; 0 where one of the two is the same everywhere."""
    own = ranks(change)
    return np.array([correlation(own, ranks(each)) for each in scores])


def _with_interval(samples: Floats) -> Floats:
    """Of samples [1 + R, ACROSS, ...], the first and the others' 95 % interval [ACROSS, ..., 3]."""
    found = np.full((*samples.shape[1:], 3), np.nan)
    for a, first in enumerate(samples[0]):
        if not np.isnan(first).any():
            ends = np.nanquantile(samples[1:, a], [0.025, 0.975], axis=0)
            found[a] = np.stack([first, *ends], -1)
    return found
