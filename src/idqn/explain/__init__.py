"""Explanations of trained agents: each is one verb, which returns one frozen result.

```python
agent = idqn.load("runs/MsPacman-idqn-s0")
states = idqn.explain.collect(agent)  # its own games; every verb plays some if it gets none
found = idqn.explain.keys(agent, states)
```
"""

from idqn.explain.performance import Performance, performance
from idqn.explain.results import About, Result
from idqn.explain.states import States, collect

__all__ = [
    "About",
    "Performance",
    "Result",
    "States",
    "collect",
    "performance",
]
