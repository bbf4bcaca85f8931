"""How often something happened, and how sure that is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_Z = 1.959964  # of a 95 % interval


class Rate(NamedTuple):
    happened: int
    of: int

    @property
    def share(self) -> float:
        """NaN of nothing."""
        return self.happened / self.of if self.of else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, Wilson's: it stays within 0 and 1, and does not vanish where all or none did."""
        if not self.of:
            return 0.0, 1.0
        share, z2 = self.share, _Z**2
        middle = (share + z2 / (2 * self.of)) / (1 + z2 / self.of)
        spread = np.sqrt(share * (1 - share) / self.of + z2 / (4 * self.of**2))
        half = float(_Z / (1 + z2 / self.of) * spread)
        return max(0.0, middle - half), min(1.0, middle + half)
