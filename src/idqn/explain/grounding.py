"""Saliency held against the game itself: a map says how much an object matters, and the game can be
played without it.

An object is taken away in the game (or, where that cannot be, moved), both games go on with the
same actions until the agent's whole stack of frames shows it, and the change of the value of the
action it chooses is set beside the saliency that lay on the object's pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from idqn.agent import Agent
from idqn.envs.single import make_editable
from idqn.errors import UserError
from idqn.evaluate import EVALUATION_SEED
from idqn.explain.correlation import correlation, ranks
from idqn.explain.deletion import detail, random_places
from idqn.explain.progress import Progress, silent
from idqn.explain.removed import KINDS, Removals, without_objects
from idqn.explain.results import Result
from idqn.explain.saliency import METHODS, saliency_maps
from idqn.explain.states import about
from idqn.explain.twins import record

Floats = NDArray[np.float64]

RIVALS = ("picture detail", "area", "random")
"""What knows no agent: how much blurring changes an object's pixels, how many they are, and a
random map in spots."""
MEASURES = ("total", "density")
ACROSS = ("pooled", "within states")
FEWEST = 3  # objects of a state, for a correlation within it
RESAMPLES = 1_000


@dataclass(frozen=True, eq=False, repr=False)
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
        made = without_objects(agent, env, played, kinds, states, objects, seed, progress)
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


class _Pairs:
    """What the agent says of them."""

    def __init__(
        self, agent: Agent, made: list[Removals], seed: int, progress: Progress = silent
    ) -> None:
        observations = np.stack([one.observation for one in made])
        height, width = observations.shape[-2:]
        out = agent.look(observations, decode=False)
        action, q = agent.choose(out), out.q.cpu().numpy().astype(np.float64)
        maps: dict[str, NDArray[np.floating]] = {}
        for number, method in enumerate(METHODS):
            progress("maps of the chosen actions", number, len(METHODS))
            maps[method] = saliency_maps(agent, observations, action, method)
        maps["picture detail"] = detail(observations)
        maps["area"] = np.ones_like(maps["picture detail"])
        maps["random"] = random_places(len(made), height, width, seed)
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
    found = samples.reshape(-1, len(ACROSS), measures, count)
    methods = count - len(RIVALS)
    gains = found[..., :methods, None] - found[..., None, methods:]
    return _with_interval(found), _with_interval(gains)


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
