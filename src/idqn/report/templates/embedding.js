// A map of states and keys: point, tap or use the arrow keys to see what a point is.
{
  const data = idqn.data("embedding");
  const states = data.action.length;
  const keys = data.keys ? data.keys.action.length : 0;
  const actionOf = [...data.action, ...(data.keys ? data.keys.action : [])];
  const highest = data.q.indexOf(Math.max(...data.q));
  const state = { map: 0, keys: 0, action: -1, above: false, chosen: highest };
  const COLOURS = 8;  // of the page; beyond them, another shape

  const canvas = idqn.make("canvas", { className: "embedding-canvas", tabIndex: 0 });
  canvas.setAttribute("role", "application");
  canvas.setAttribute("aria-label",
    `map of ${states} states${keys ? ` and ${keys} keys` : ""}; arrow keys go from point to point`);
  const axes = idqn.make("p", { className: "embedding-note" });
  const seen = idqn.make("div", { className: "embedding-seen" });
  seen.setAttribute("aria-live", "polite");
  const sheet = new Image();
  sheet.onload = () => tell();
  sheet.src = data.frames.url;

  // What is drawn, and where: filled by each drawing.
  let spots = [];

  const shown = (i) => i < states || state.keys === 0 || (state.keys === 1 && data.keys.marked[i - states]);
  const faint = (i) => (state.action >= 0 && actionOf[i] !== state.action)
    || (state.above && i < states && !data.above[i]);

  function outline(pen, group, x, y, r) {  // one shape for each eight actions
    pen.beginPath();
    if (group === 0) {
      pen.arc(x, y, r, 0, 2 * Math.PI);
    } else if (group === 1) {
      pen.moveTo(x, y - 1.4 * r);
      pen.lineTo(x + 1.25 * r, y + 0.9 * r);
      pen.lineTo(x - 1.25 * r, y + 0.9 * r);
      pen.closePath();
    } else {
      const a = 1.35 * r, b = 0.45 * r;
      pen.moveTo(x - a, y - b);
      for (const [dx, dy] of [[-b, -b], [-b, -a], [b, -a], [b, -b], [a, -b], [a, b], [b, b], [b, a],
        [-b, a], [-b, b], [-a, b]]) pen.lineTo(x + dx, y + dy);
      pen.closePath();
    }
  }

  function square(pen, i, x, y, r, inks) {
    const key = i - states, colour = faint(i) ? inks.rule : inks.series[actionOf[i] % COLOURS];
    pen.lineWidth = 1.6;
    pen.fillStyle = data.keys.used[key] && !faint(i) ? colour : inks.card;
    pen.strokeStyle = data.keys.used[key] && !faint(i) ? inks.ink : colour;
    pen.fillRect(x - r, y - r, 2 * r, 2 * r);
    pen.strokeRect(x - r, y - r, 2 * r, 2 * r);
    const group = Math.floor(actionOf[i] / COLOURS);
    if (group) {
      pen.fillStyle = data.keys.used[key] && !faint(i) ? inks.card : colour;
      outline(pen, group, x, y, 0.5 * r);
      pen.fill();
    }
  }

  const extent = (indices) => data.maps[state.map].map((axis) => {
    let low = Infinity, high = -Infinity;
    for (const i of indices) { low = Math.min(low, axis[i]); high = Math.max(high, axis[i]); }
    return high > low ? [low, high] : [low - 1, high + 1];
  });

  // From positions to pixels: the same for both axes on t-SNE's map, whose axes mean nothing.
  function scales(width, height, ends) {
    const margin = state.map ? { left: 44, right: 14, top: 14, bottom: 40 }
      : { left: 14, right: 14, top: 14, bottom: 14 };
    const room = [width - margin.left - margin.right, height - margin.top - margin.bottom];
    let per = ends.map(([low, high], k) => room[k] / (high - low));
    if (!state.map) per = per.map(() => Math.min(...per));
    const middle = ends.map(([low, high]) => (low + high) / 2);
    const centre = [margin.left + room[0] / 2, margin.top + room[1] / 2];
    return {
      ends, margin,
      x: (value) => centre[0] + (value - middle[0]) * per[0],
      y: (value) => centre[1] - (value - middle[1]) * per[1],
    };
  }

  function ticks(low, high) {
    const rough = (high - low) / 5, size = 10 ** Math.floor(Math.log10(rough));
    const step = size * [1, 2, 5, 10].find((m) => m * size >= rough);
    const found = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) found.push(k * step);
    return found.map((value) => [value, idqn.number(value, Math.abs(value) < 10 && step < 1 ? 2 : 1)]);
  }

  function drawAxes(pen, width, height, scale, inks) {
    pen.fillStyle = inks.soft;
    pen.strokeStyle = inks.rule;
    pen.lineWidth = 1;
    pen.font = "12px system-ui, sans-serif";
    const bottom = height - scale.margin.bottom + 8, left = scale.margin.left - 8;
    pen.textAlign = "center";
    for (const [value, text] of ticks(...scale.ends[0])) {
      pen.beginPath(); pen.moveTo(scale.x(value), 4); pen.lineTo(scale.x(value), bottom); pen.stroke();
      pen.fillText(text, scale.x(value), bottom + 13);
    }
    pen.fillText(`component 1 (${data.share[0]} of the variance)`, (left + width) / 2, height - 4);
    pen.textAlign = "right";
    for (const [value, text] of ticks(...scale.ends[1])) {
      pen.beginPath(); pen.moveTo(left, scale.y(value)); pen.lineTo(width - 4, scale.y(value)); pen.stroke();
      pen.fillText(text, left - 4, scale.y(value) + 4);
    }
    pen.save();
    pen.translate(11, (bottom + 4) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(`component 2 (${data.share[1]})`, 0, 0);
    pen.restore();
  }

  function draw() {
    const width = canvas.parentElement ? Math.floor(canvas.parentElement.clientWidth) : 0;
    if (!width) return;  // not on the page yet
    const indices = [];
    for (let i = 0; i < states + keys; i++) if (shown(i)) indices.push(i);
    const ends = extent(indices);
    const [across, up] = ends.map(([low, high]) => high - low);
    const tall = state.map ? 0.8 : Math.min(0.8, 1.05 * up / across);
    const height = Math.round(Math.min(Math.max(tall * width, 320), 560));
    const dense = window.devicePixelRatio || 1;
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    const pen = canvas.getContext("2d");
    pen.scale(dense, dense);
    const inks = {
      ink: idqn.colour("--ink"), card: idqn.colour("--card"), rule: idqn.colour("--rule"),
      soft: idqn.colour("--soft"),
      series: Array.from({ length: COLOURS }, (_, k) => idqn.colour(`--series-${k + 1}`)),
    };
    const scale = scales(width, height, ends);
    if (state.map) drawAxes(pen, width, height, scale, inks);
    const [xs, ys] = data.maps[state.map];
    spots = indices.map((i) => ({ i, x: scale.x(xs[i]), y: scale.y(ys[i]), faint: faint(i) }));
    const r = width < 500 ? 2.7 : 3.4;
    const order = [...spots.filter((s) => s.faint), ...spots.filter((s) => !s.faint)];
    for (const { i, x, y, faint: pale } of order) {
      if (i >= states) continue;
      pen.globalAlpha = pale ? 0.3 : 0.85;
      pen.fillStyle = pale ? inks.soft : inks.series[actionOf[i] % COLOURS];
      outline(pen, Math.floor(actionOf[i] / COLOURS), x, y, pale ? 0.8 * r : r);
      pen.fill();
    }
    pen.globalAlpha = 1;
    for (const { i, x, y } of order) if (i >= states) square(pen, i, x, y, 1.35 * r, inks);
    const spot = spots.find((s) => s.i === state.chosen);
    if (!spot) return;
    for (const [colour, wide] of [[inks.card, 5], [inks.ink, 2.4]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = wide;
      pen.beginPath();
      pen.arc(spot.x, spot.y, 2.6 * r, 0, 2 * Math.PI);
      pen.stroke();
    }
  }

  function facts(pairs) {
    const list = idqn.make("dl");
    for (const [name, text] of pairs) {
      list.append(idqn.make("dt", { textContent: name }), idqn.make("dd", { textContent: text }));
    }
    return list;
  }

  function frame(i) {
    const { columns, width, height } = data.frames;
    const times = Math.max(1, Math.round(190 / width));
    const picture = idqn.make("canvas", { width: width * times, height: height * times });
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", `frame of step ${data.step[i]} of game ${data.episode[i]}`);
    const pen = picture.getContext("2d");
    pen.imageSmoothingEnabled = false;
    if (sheet.complete) {
      pen.drawImage(sheet, (i % columns) * width, Math.floor(i / columns) * height, width, height,
        0, 0, picture.width, picture.height);
    }
    return picture;
  }

  function tell() {
    const i = state.chosen;
    const name = data.actions[actionOf[i]];
    if (i >= states) {
      const used = data.keys.used[i - states];
      seen.replaceChildren(idqn.make("div", {},
        idqn.make("h3", { textContent: `Key of ${name}` }),
        facts([["value", data.keys.value[i - states]], ["in use", used
          ? "yes: in some state the most attended key of its action"
          : "no: never the most attended key of its action"]])));
      return;
    }
    const pairs = [["Q", idqn.number(data.q[i])],
      ["game", String(data.episode[i])], ["step", data.step[i].toLocaleString("en")]];
    if (data.attention) {
      pairs.push([`attention to value ${data.value}`,
        `${idqn.number(data.attention[i])} (${data.actions[data.attending[i]]})`]);
    }
    seen.replaceChildren(frame(i),
      idqn.make("div", {}, idqn.make("h3", { textContent: name }), facts(pairs)));
  }

  function choose(i) {
    if (i === state.chosen) return;
    state.chosen = i;
    draw();
    tell();
  }

  // Those that are not faint, if there are any such.
  const reachable = () => {
    const clear = spots.filter((s) => !s.faint);
    return clear.length ? clear : spots;
  };

  // Draw anew, and choose a state that is not faint, if there is any.
  function freshen() {
    draw();
    if (!faint(state.chosen)) return;
    const clear = spots.filter((s) => !s.faint && s.i < states);
    if (clear.length) choose(clear.reduce((a, b) => (data.q[b.i] > data.q[a.i] ? b : a)).i);
  }

  function nearest(event, reach) {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = null, least = reach * reach;
    for (const spot of reachable()) {
      const far = (spot.x - x) ** 2 + (spot.y - y) ** 2;
      if (far < least) [best, least] = [spot, far];
    }
    if (best) choose(best.i);
  }

  const AIMS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") nearest(event, 24); });
  canvas.addEventListener("click", (event) => nearest(event, 48));
  canvas.addEventListener("keydown", (event) => {
    const aim = AIMS[event.key];
    if (!aim) return;
    event.preventDefault();
    const from = spots.find((s) => s.i === state.chosen);
    const middle = { x: canvas.clientWidth / 2, y: canvas.clientHeight / 2 };
    let best = null, least = Infinity;
    for (const spot of reachable()) {
      const dx = spot.x - (from || middle).x, dy = spot.y - (from || middle).y;
      const along = dx * aim[0] + dy * aim[1], across = Math.abs(dx * aim[1] - dy * aim[0]);
      if (from && along < 0.5) continue;  // behind, or on the same place
      const far = from ? along + 2 * across : Math.hypot(dx, dy);
      if (far < least) [best, least] = [spot, far];
    }
    if (best) choose(best.i);
  });

  // Actions: each with its mark; one can be seen alone.
  const svg = (content) => {
    const mark = idqn.make("span", { className: "embedding-mark" });
    mark.innerHTML = `<svg viewBox="-8 -8 16 16" width="16" height="16" aria-hidden="true">${content}</svg>`;
    return mark;
  };
  const SHAPES = ['<circle r="5.5"/>', '<path d="M0-7 6.5 5H-6.5z"/>',
    '<path d="M-7-2.3H-2.3V-7H2.3V-2.3H7V2.3H2.3V7H-2.3V2.3H-7z"/>'];
  const legend = idqn.make("div", { className: "controls embedding-legend", role: "group" });
  legend.setAttribute("aria-label", "see one action alone");
  const entries = data.actions.map((name, a) => {
    const count = data.action.filter((one) => one === a).length;
    const button = idqn.make("button", { type: "button", onclick: () => only(a) },
      svg(`<g fill="var(--series-${a % COLOURS + 1})">${SHAPES[Math.floor(a / COLOURS) % SHAPES.length]}</g>`),
      name, idqn.make("small", { textContent: count.toLocaleString("en") }));
    legend.append(button);
    return button;
  });
  function only(action) {
    state.action = state.action === action ? -1 : action;
    entries.forEach((button, a) => button.setAttribute("aria-pressed", String(a === state.action)));
    freshen();
  }

  const controls = idqn.make("div", { className: "row embedding-choices" });
  controls.append(idqn.choice(["t-SNE", "principal components"], "which map", (map) => {
    state.map = map;
    axes.textContent = map
      ? "The axes are the two directions in which the embeddings vary most; each has its own scale."
      : "The axes of t-SNE have no unit: only who lies beside whom means something.";
    draw();
  }));
  if (keys) {
    controls.append(idqn.choice(["all keys", `keys of value ${data.value}`, "no keys"], "which keys",
      (which) => { state.keys = which; draw(); }));
  }
  if (data.above && data.above.includes(1)) {
    const button = idqn.make("button", {
      type: "button", textContent: `only states with attention above ${data.threshold} to value ${data.value}`,
      onclick: () => {
        state.above = !state.above;
        button.setAttribute("aria-pressed", String(state.above));
        freshen();
      },
    });
    button.setAttribute("aria-pressed", "false");
    controls.append(idqn.make("div", { className: "controls" }, button));
  }
  const marks = idqn.make("p", { className: "embedding-note" });
  if (keys) {
    const box = 'x="-5" y="-5" width="10" height="10" stroke-width="1.6"';
    marks.append(svg(`<rect ${box} fill="var(--soft)" stroke="var(--ink)"/>`), " key in use  ",
      svg(`<rect ${box} fill="none" stroke="var(--soft)"/>`),
      " key that is never the most attended of its action");
  }
  const place = idqn.make("div", { className: "embedding-place" }, canvas);
  tell();
  document.getElementById("embedding-map").append(controls, legend, marks,
    idqn.make("div", { className: "embedding-both" }, idqn.make("div", { className: "embedding-left" }, place, axes), seen));
  entries.forEach((button) => button.setAttribute("aria-pressed", "false"));
  new ResizeObserver(draw).observe(place);
  window.addEventListener("themechange", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
