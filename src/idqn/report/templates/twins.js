// Two games from one moment, side by side and step by step.
for (const kind of ["extra-pellet", "inverted-triangle"]) {
  if (!document.getElementById(`data-${kind}`)) continue;
  const twins = idqn.data(kind);
  const { atlas, actions, sides } = twins;
  const sheet = new Image();
  const steps = Math.max(...sides.map((side) => side.action.length));
  let step = Math.min(twins.settle, steps - 1), over = 0;  // the change is seen

  sides.forEach((side, i) => {
    side.attention = side.attention && idqn.bytes(side.attention);
    side.saliency = side.saliency && idqn.bytes(side.saliency);
    side.first = i ? sides[0].action.length : 0;
    side.soFar = side.reward.map(((sum) => (r) => (sum += r))(0));
  });

  // ---- what there is ----
  sides.forEach((side, i) => {
    side.screen = idqn.still(`the screen, ${twins.names[i]}`);
    side.said = idqn.make("p", { className: "twins-said" });
    side.mind = idqn.still(`what the agent says, ${twins.names[i]}`);
  });
  const strip = idqn.still("both games");
  const going = idqn.player({ steps, first: step, label: "steps after the change", strip,
    rate: () => twins.steps_per_second, draw: (to) => { step = to; draw(); } });
  const moves = going.buttons;
  if (twins.first_action !== null && twins.first_action < steps) {
    moves.push(idqn.button("to where they part", "the first different action",
      () => going.go(twins.first_action)));
  }
  const player = idqn.make("div", { className: "twins" },
    idqn.make("div", { className: "twins-screens" }, ...sides.map((side, i) =>
      idqn.make("figure", {}, idqn.make("h3", { textContent: twins.names[i] }), side.screen,
        side.said))),
    strip, going.range, idqn.make("div", { className: "controls" }, ...moves),
    idqn.choice(["screen with saliency", "screen alone"], "saliency", (i) => { over = i; draw(); }),
    idqn.make("div", { className: "row" }, ...sides.map((side, i) =>
      idqn.make("figure", { className: "twins-mind" },
        idqn.make("h3", { textContent: `${twins.values ? "Attention and Q" : "Q"}, ${twins.names[i]}` }),
        side.mind))),
    idqn.make("p", { className: "twins-note", textContent: (twins.values
      ? `Attention: each row is an action, each cell a key, from return ${idqn.number(twins.values[0], 2)} `
        + `on the left to ${idqn.number(twins.values.at(-1), 2)} on the right; full colour is `
        + `${idqn.number(twins.largest_attention)}. ` : "")
      + "Bold: the action taken. Warm places on the screen: what its Q depends on, full at the most "
      + "of each step." }));
  document.getElementById(`${kind}-player`).append(player);

  // ---- drawing ----
  const at = (side) => Math.min(step, side.action.length - 1);

  const mask = idqn.make("canvas");
  function drawScreen(side) {
    const now = at(side), large = Math.max(1, Math.ceil(420 / atlas.height));
    const width = atlas.width * large, height = atlas.height * large;
    if (side.screen.width !== width) Object.assign(side.screen, { width, height });
    const c = side.screen.getContext("2d"), place = side.first + now;
    c.globalCompositeOperation = "source-over";
    c.imageSmoothingEnabled = false;
    c.drawImage(sheet, (place % atlas.columns) * atlas.width,
      Math.floor(place / atlas.columns) * atlas.height, atlas.width, atlas.height, 0, 0, width, height);
    if (over === 0) {
      c.globalCompositeOperation = "saturation";
      c.fillStyle = "rgba(128, 128, 128, .55)";
      c.fillRect(0, 0, width, height);
      c.globalCompositeOperation = "source-over";
      const [rows, columns] = side.grid, picture = new ImageData(columns, rows);
      for (let i = 0; i < rows * columns; i++) {
        const share = side.saliency[now * rows * columns + i] / 255;
        picture.data.set([255, 230 - 150 * share, 40, 220 * share], 4 * i);
      }
      Object.assign(mask, { width: columns, height: rows });
      mask.getContext("2d").putImageData(picture, 0, 0);
      c.imageSmoothingEnabled = true;
      c.drawImage(mask, 0, 0, width, height);
    }
    c.strokeStyle = "#ff40ff";
    c.lineWidth = Math.max(2, large);
    for (const [top, left, bottom, right] of twins.boxes) {
      const room = 2 * large;
      c.strokeRect(left * large - room, top * large - room, (right - left) * large + 2 * room,
        (bottom - top) * large + 2 * room);
    }
    const ended = step >= side.action.length;
    const given = now < twins.settle ? " (given)" : "";
    side.said.textContent = ended
      ? `over after ${side.action.length} steps · return ${idqn.number(side.soFar.at(-1))}`
      : `step ${now}: ${actions[side.action[now]]}${given} · so far ${idqn.number(now ? side.soFar[now - 1] : 0)}`;
  }

  function drawMind(side) {
    const row = 20, now = at(side), keys = twins.values ? twins.values.length : 0;
    const [c, width] = idqn.blank(side.mind, row * actions.length + 4);
    const q = side.q[now], best = Math.max(...q);
    const from = idqn.roomForNames(c, actions);
    const numbers = 46, room = width - from - numbers, cell = room / Math.max(keys, 1);
    actions.forEach((name, a) => {
      const taken = a === side.action[now], middle = (a + 0.5) * row;
      c.font = `${taken ? "bold " : ""}12px system-ui, sans-serif`;
      c.fillStyle = idqn.colour(taken ? "--series-2" : "--ink");
      c.textAlign = "left";
      c.fillText(name, 0, middle);
      c.textAlign = "right";
      c.fillText(idqn.number(q[a]), width, middle);
      for (let k = 0; k < keys; k++) {
        const weight = side.attention[(now * actions.length + a) * keys + k] / 255;
        for (const [colour, alpha] of [["--rule", 0.35], ["--cell", weight]]) {
          c.fillStyle = idqn.colour(colour);
          c.globalAlpha = alpha;
          c.fillRect(from + k * cell, a * row + 1, cell - 1, row - 2);
        }
        c.globalAlpha = 1;
      }
      if (!keys) {
        c.fillStyle = idqn.colour(taken ? "--series-2" : "--cell");
        c.fillRect(from, a * row + 3, Math.max(1, room * (1 - (best - q[a]) / twins.q_range)), row - 6);
      }
    });
  }

  function drawStrip() {
    const [c, width] = idqn.blank(strip, 62);
    const x = (t) => 1 + t / Math.max(steps - 1, 1) * (width - 3), wide = Math.max(2, (width - 2) / steps);
    c.fillStyle = idqn.colour("--rule");
    c.fillRect(x(0), 18, x(twins.settle) - x(0), 40);
    sides.forEach((side, i) => {
      side.reward.forEach((r, t) => {
        if (r === 0) return;
        c.fillStyle = idqn.colour(r > 0 ? "--series-3" : "--series-7");
        c.fillRect(x(t), 20 + 26 * i, Math.min(wide, 4), 10);
      });
    });
    const shared = Math.min(...sides.map((side) => side.action.length));
    c.fillStyle = idqn.colour("--series-2");
    for (let t = 0; t < steps; t++) {
      if (t >= shared || sides[0].action[t] !== sides[1].action[t]) {
        c.fillRect(x(t), 34, Math.max(1, wide - 1), 8);
      }
    }
    c.fillStyle = idqn.colour("--ink");
    c.fillRect(x(step), 16, 2, 44);
    c.fillStyle = idqn.colour("--soft");
    c.textAlign = "left";
    c.fillText("rewards of the left, of the right; between: steps at which they act differently", 0, 7, width);
  }

  function draw() {
    if (!sheet.complete || !sheet.naturalWidth) return;
    sides.forEach((side) => { drawScreen(side); drawMind(side); });
    drawStrip();
  }
  sheet.onload = draw;
  sheet.src = atlas.url;
  window.addEventListener("resize", draw);
  window.addEventListener("themechange", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
