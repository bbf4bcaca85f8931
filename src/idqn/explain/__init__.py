"""Explanations of trained agents: each is one verb, which returns one frozen result.

```python
agent = idqn.load("runs/MsPacman-idqn-s0")
states = idqn.explain.collect(agent)  # its own games; every verb plays some if it gets none
found = idqn.explain.keys(agent, states)
```
"""

from idqn.explain.agreement import Agreement, agreement
from idqn.explain.attack import attack
from idqn.explain.attention import Attention, attention
from idqn.explain.comparison import Comparison, comparison
from idqn.explain.embedding import Embedding, embedding
from idqn.explain.extra_pellet import ExtraPellet
from idqn.explain.faithfulness import Faithfulness, faithfulness
from idqn.explain.film import Film, film
from idqn.explain.ground_truth import GroundTruth, ground_truth
from idqn.explain.grounding import Grounding, grounding
from idqn.explain.interpolation import Interpolation, interpolation
from idqn.explain.inverted_triangle import InvertedTriangle
from idqn.explain.keys import Keys, keys
from idqn.explain.memorization import Memorization, memorization
from idqn.explain.performance import Performance, performance
from idqn.explain.pixel_max import PixelMax
from idqn.explain.results import About, Result
from idqn.explain.saliency import Saliency, saliency, saliency_maps
from idqn.explain.search import Search, search
from idqn.explain.states import States, collect
from idqn.explain.surgery import Surgery, surgery

__all__ = [
    "About",
    "Agreement",
    "Attention",
    "Comparison",
    "Embedding",
    "ExtraPellet",
    "Faithfulness",
    "Film",
    "GroundTruth",
    "Grounding",
    "Interpolation",
    "InvertedTriangle",
    "Keys",
    "Memorization",
    "Performance",
    "PixelMax",
    "Result",
    "Saliency",
    "Search",
    "States",
    "Surgery",
    "agreement",
    "attack",
    "attention",
    "collect",
    "comparison",
    "embedding",
    "faithfulness",
    "film",
    "ground_truth",
    "grounding",
    "interpolation",
    "keys",
    "memorization",
    "performance",
    "saliency",
    "saliency_maps",
    "search",
    "surgery",
]
