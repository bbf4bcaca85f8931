"""What every torso does, and from what it is made."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from torch import Tensor

from idqn.networks import QNetwork
from idqn.parameters import ParameterRows
from idqn.types import Batch, Decoded, Seen


class Networks(NamedTuple):
    """Code and numbers of a population's networks."""

    module: QNetwork  # without numbers of its own
    rows: ParameterRows
    online: Tensor  # [P, D]
    target: Tensor  # [P, D]
    mean_image: Tensor  # [P, C, H, W]
    bootstrap: str  # "double", "target" or "online"


class Torso(Protocol):
    def embed(self, observation: Tensor) -> Tensor:
        """h(s) in the online networks, [P, E, embedding size]."""
        ...

    def look(self, batch: Batch) -> Seen:
        """The embeddings of a batch."""
        ...

    def decode(self, code: Tensor) -> Decoded:
        """What the decoder makes of the codes of s, [P, B, E]: their embeddings, or draws from
        what those say."""
        ...

    def back_through_decoder(self, reconstruction: Tensor) -> Tensor:
        """From the gradient with respect to what `decode` returned to that of the codes."""
        ...

    def gradient(self, embedding: Tensor, from_decoder: Tensor | None) -> Tensor:
        """Go on with the gradient with respect to the embeddings, in two parts; returns that of
        the parameters, [P, D]. The head's columns are the caller's."""
        ...

    def beside(self) -> AbstractContextManager[None]:
        """Within it, work is queued beside what follows it, until `gradient`. What `look` saw is
        there to be read after it."""
        ...

    def online_changed(self) -> None: ...

    def target_changed(self) -> None: ...
