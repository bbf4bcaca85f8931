"""From observations to embeddings and reconstructions, for all runs of a population, and back.

`look` goes forward, `gradient` back through what was last looked at. `PlainTorso` leaves both to
torch, one run after another: simple, and to the bit what each run would compute alone.
`idqn.torso.fused.FusedTorso` does the same on a GPU, for all runs at once; it needs Triton.
"""

from idqn.torso.interface import Networks, Torso
from idqn.torso.plain import PlainTorso

__all__ = ["Networks", "PlainTorso", "Torso"]
