"""Look into a trained i-DQN: what it sees, what it remembers of it, and what it expects.

pip install -e '.[examples]'
python examples/look.py runs/NAME look.png [steps into the game]
"""

from __future__ import annotations

import sys
from itertools import islice

import matplotlib.pyplot as plt

import idqn


def main(run: str, picture: str, steps: int = 12) -> None:
    agent = idqn.load(run)
    moment = next(islice(idqn.play(agent.act, agent.make_env(), seed=5), steps, None))
    out = agent.look(moment.observation)
    best = int(out.q.argmax())
    key = int(out.attention[best].argmax())
    value = f"{agent.values[key]:.0f}"

    figure, (screen, seen, remembered, inverted, attention) = plt.subplots(
        1, 5, figsize=(15, 3.4), width_ratios=[1, 1, 1, 1, 1.9], layout="constrained"
    )
    screen.imshow(moment.screen)
    screen.set_title("the game")
    grey = {"cmap": "gray", "vmin": 0, "vmax": 255}
    seen.imshow(moment.observation[-1], **grey)
    seen.set_title("what the agent sees")
    remembered.imshow(out.reconstruction[-1], **grey)
    remembered.set_title("decoded embedding")
    inverted.imshow(agent.decode(agent.keys[best, key])[-1], **grey)
    inverted.set_title(f"decoded key\n({agent.action_names[best]}, {value})")
    for axis in (screen, seen, remembered, inverted):
        axis.axis("off")
    image = attention.imshow(out.attention, cmap="Blues", vmin=0, aspect="auto")
    labels = [
        f"{name}  {q:.1f} ± {u:.1f}"
        for name, q, u in zip(agent.action_names, out.q, out.uncertainty, strict=True)
    ]
    attention.set_yticks(range(len(labels)), labels)
    ticks = range(0, len(agent.values), 3)
    attention.set_xticks(ticks, [f"{agent.values[i]:.0f}" for i in ticks])
    attention.set_xlabel("value of the key (expected return)")
    attention.set_title("attention, and Q ± U")
    figure.colorbar(image, ax=attention, label="weight")
    figure.savefig(picture, dpi=110)
    print(f"{agent.action_names[best]} with Q = {out.q[best]:.1f}: {picture}")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    try:
        main(sys.argv[1], sys.argv[2], *(int(n) for n in sys.argv[3:]))
    except idqn.UserError as error:  # no such run, or an agent without keys or pictures
        sys.exit(str(error))
