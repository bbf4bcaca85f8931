"""What an agent sees of its environment, and how episodes begin and end."""

from __future__ import annotations

from dataclasses import dataclass

import tyro

from idqn.config.checks import require


@dataclass(frozen=True)
class EnvConfig:
    id: tyro.conf.Suppress[str] = "ALE/MsPacman-v5"
    """Environment id: ALE/NAME-v5, idqn/MiniPacman-v0, or any Gymnasium id with image
    observations and discrete actions."""
    frame_height: int | None = 84
    """Height frames are resized to; None keeps the environment's own (210 for Atari)."""
    frame_width: int | None = 84
    """Width frames are resized to; None keeps the environment's own (160 for Atari)."""
    color: bool = False
    """Keep colour; otherwise RGB frames become grey."""
    frame_stack: int = 4
    """Consecutive frames that make one observation; zeros before an episode's first frame."""
    frame_skip: int = 4
    """Frames each action is repeated for."""
    max_pool: bool = True
    """Take the pixel-wise maximum of the last two skipped frames (Atari sprites blink)."""
    noop_max: int = 30
    """Start each episode with a random number of no-op frames, up to this many (Atari)."""
    fire_on_reset: bool = True
    """Press FIRE once after a reset, in games that have it (Atari)."""
    sticky_probability: float = 0.0
    """Probability that the emulator repeats the previous action instead (Atari)."""
    full_action_space: bool = False
    """Offer all 18 joystick actions instead of the game's own (Atari)."""
    max_episode_frames: int | None = 108_000
    """Truncate episodes here (108,000 frames are 30 minutes of Atari); None never does."""

    def __post_init__(self) -> None:
        for name in ("frame_height", "frame_width", "frame_stack", "frame_skip"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"env.{name} must be at least 1, got {value}")
        require(self.noop_max >= 0, f"env.noop_max must be at least 0, got {self.noop_max}")
        require(
            0.0 <= self.sticky_probability < 1.0,
            f"env.sticky_probability must be in [0, 1), got {self.sticky_probability}",
        )
        require(
            self.max_episode_frames is None or self.max_episode_frames >= self.frame_skip,
            f"env.max_episode_frames must be at least one step ({self.frame_skip} frames), "
            f"got {self.max_episode_frames}",
        )

    @property
    def is_atari(self) -> bool:
        return self.id.startswith("ALE/")

    @property
    def steps_per_second(self) -> float:
        """How fast a person would see it played, in agent steps."""
        return 60 / self.frame_skip if self.is_atari else 8.0
