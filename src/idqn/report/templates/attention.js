// Attention of one moment (actions x values, Q and U), and of a whole game as a strip.
{
  const d = idqn.data("attention");
  const actions = d.names.length, keys = d.values.length, steps = d.action.length;
  const weights = Uint8Array.from(atob(d.attention), (c) => c.charCodeAt(0));  // [T, A, N]
  const at = (t, a, n) => weights[(t * actions + a) * keys + n] / 255;  // of the largest
  const view = document.getElementById("attention-view");
  const strip = document.getElementById("attention-strip");
  const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
  const number = idqn.number;
  const ends = d.q.flatMap((row, t) => row.flatMap((q, a) => [q - d.u[t][a], q + d.u[t][a]]));
  const low = ends.reduce((x, y) => Math.min(x, y), 0), high = ends.reduce((x, y) => Math.max(x, y), 0);
  let now = -1;

  const text = (x, y, content, anchor = "start", weight = 400) =>
    `<text class="label" x="${x}" y="${y}" text-anchor="${anchor}" font-weight="${weight}">${escape(content)}</text>`;
  const svg = (width, height, label, content) =>
    `<svg class="chart" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" ` +
    `role="img" aria-label="${escape(label)}">${content}</svg>`;
  const rowHeight = 20, head = 2, left = 26 + 8.7 * Math.max(...d.names.map((n) => n.length));
  const room = 150, barsWidth = left + room + 100;
  const rowName = (t, a) => text(left - 6, head + a * rowHeight + 14, (a === d.action[t] ? "▸ " : "") + d.names[a],
    "end", a === d.action[t] ? 700 : 400);

  function heatmap(t, width) {
    const cell = Math.max(9, Math.min(20, Math.floor((width - left - 10) / keys)));
    const names = d.values.map((v) => number(v, 2));
    const every = Math.ceil((9 + 7 * Math.max(...names.map((n) => n.length))) / cell);
    let parts = "";
    for (let a = 0; a < actions; a++) {
      parts += rowName(t, a);
      for (let n = 0; n < keys; n++) {
        const share = at(t, a, n);
        parts += `<rect class="cell" x="${left + n * cell}" y="${head + a * rowHeight}" width="${cell - 1}" ` +
          `height="${rowHeight - 1}" fill-opacity="${Math.sqrt(share).toFixed(3)}"><title>` +
          `${escape(d.names[a])}, ${names[n]}: ${number(share * d.largest)}</title></rect>`;
      }
    }
    const chosen = d.action[t];
    parts += `<rect class="attention-taken" x="${left - 1}" y="${head + chosen * rowHeight - 1}" width="${keys * cell + 1}" height="${rowHeight + 1}"/>`;
    const bottom = head + actions * rowHeight;
    for (let n = (keys - 1) % every; n < keys; n += every)
      parts += text(left + (n + 0.5) * cell, bottom + 14, names[n], "middle");
    parts += text(left, bottom + 33, `value; half colour: ${number(d.largest / 4)}, full: ${number(d.largest)}`);
    return svg(left + keys * cell + 12, bottom + 42,
      `attention of each action to each value at step ${t + 1}`, parts);
  }

  function bars(t) {
    const x = (v) => left + (v - low) / (high - low || 1) * room;
    let parts = "";
    for (let a = 0; a < actions; a++) {
      const q = d.q[t][a], u = d.u[t][a], y = head + a * rowHeight;
      parts += rowName(t, a) +
        `<rect class="bar" x="${Math.min(x(0), x(q))}" y="${y + 3}" width="${Math.abs(x(q) - x(0))}" height="13" ` +
        `fill-opacity="${a === d.action[t] ? 1 : 0.55}"/>` +
        `<line class="whisker" x1="${x(q - u)}" x2="${x(q + u)}" y1="${y + 9.5}" y2="${y + 9.5}"/>` +
        [q - u, q + u].map((v) => `<line class="whisker" x1="${x(v)}" x2="${x(v)}" y1="${y + 6}" y2="${y + 13}"/>`).join("") +
        text(left + room + 8, y + 14, `${number(q)} ± ${number(u)}`);
    }
    const bottom = head + actions * rowHeight;
    parts += `<line class="grid" x1="${x(0)}" x2="${x(0)}" y1="${head}" y2="${bottom}"/>` +
      text(x(0), bottom + 14, "0", "middle") +
      (x(high) - x(0) > 30 ? text(x(high), bottom + 14, number(high), "middle") : "") +
      (x(0) - x(low) > 30 ? text(x(low), bottom + 14, number(low), "middle") : "") +
      text(left, bottom + 33, "Q, whiskers: ± U");
    return svg(barsWidth, bottom + 42, `Q and U of each action at step ${t + 1}`, parts);
  }

  // the moment
  const thumbs = idqn.make("div", { className: "attention-moments", role: "group" });
  thumbs.setAttribute("aria-label", "moments of the game");
  const width = 62;
  d.moments.forEach((t, i) => {
    const button = idqn.make("button", { type: "button", onclick: () => show(t) },
      idqn.cut(d.screens, i, width), idqn.make("span", { textContent: d.notes[t] ?? `step ${t + 1}` }));
    if (d.notes[t]) button.className = "attention-noted";
    button.dataset.step = t;
    button.setAttribute("aria-label", `step ${t + 1}${d.notes[t] ? ", " + d.notes[t] : ""}`);
    thumbs.append(button);
  });
  const screen = idqn.make("figure", { className: "attention-screen" }), map = idqn.make("div"), values = idqn.make("div");
  view.append(thumbs, idqn.make("div", { className: "row" }, screen, map, values));

  // the game
  const slider = idqn.make("input", { type: "range", min: 0, max: steps - 1, oninput: () => show(+slider.value) });
  slider.setAttribute("aria-label", "step of the game");
  const canvas = idqn.make("canvas", { className: "attention-strip" });
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "attention of the chosen action along the game, with Q, U, actions and rewards");
  const told = idqn.make("p", { className: "attention-told" });
  told.setAttribute("aria-live", "polite");
  const step = (by) => idqn.make("button", { type: "button", textContent: by < 0 ? "‹" : "›",
    ariaLabel: by < 0 ? "a step back" : "a step on", onclick: () => show(now + by) });
  strip.append(idqn.make("div", { className: "attention-scrub" }, step(-1), slider, step(1)), told, canvas,
    idqn.make("figcaption", { textContent: `Attention: half colour is ${number(d.largest / 4)}, full ${number(d.largest)}. ` +
      "Touch a moment to see it above." }));

  const used = d.names.map((_, a) => a).filter((a) => d.action.includes(a));
  const rewarded = d.reward.map((r, t) => t).filter((t) => d.reward[t] !== 0);
  const most = Math.max(...d.reward.map(Math.abs)), negative = d.reward.some((r) => r < 0);
  const panels = [
    { name: "attention of the action it takes, by value", height: Math.max(110, Math.min(220, keys * 8)) },
    { name: "Q of that action, band: ± U", height: 80 },
    { name: "action", height: used.length * 13 },
    { name: rewarded.length ? `reward, tallest: ${number(most)}` : "no reward in this game",
      height: rewarded.length ? (negative ? 44 : 26) : 0 },
  ];
  let top = 0;
  for (const panel of panels) { panel.top = top + 19; top = panel.top + panel.height + 9; }
  const height = top + 22;
  const edge = Math.max(40, 8 + 8 * Math.max(...used.map((a) => d.names[a].length)));
  let plotWidth = 0;
  const timeX = (t) => edge + t / steps * plotWidth;

  function draw() {
    const whole = strip.clientWidth, sharp = window.devicePixelRatio || 1;
    if (!whole) return;
    plotWidth = whole - edge - 8;
    canvas.width = whole * sharp;
    canvas.height = height * sharp;
    canvas.style.width = `${whole}px`;
    canvas.style.height = `${height}px`;
    const c = canvas.getContext("2d");
    c.scale(sharp, sharp);
    const colour = { ink: idqn.colour("--ink"), soft: idqn.colour("--soft"), rule: idqn.colour("--rule"),
      cell: idqn.colour("--cell"), good: idqn.colour("--series-3"), bad: idqn.colour("--series-2") };
    c.font = "11px system-ui, sans-serif";
    const write = (content, x, y, align = "left", fill = colour.soft) => {
      c.fillStyle = fill; c.textAlign = align; c.fillText(content, x, y);
    };
    for (const panel of panels) {
      write(panel.name, edge, panel.top - 5, "left", colour.ink);
      c.strokeStyle = colour.rule;
      if (panel.height) c.strokeRect(edge - 0.5, panel.top - 0.5, plotWidth + 1, panel.height + 1);
    }
    const [weight, worth, act, gain] = panels;
    drawWeights(c, weight, colour, write);
    drawWorth(c, worth, colour, write);
    used.forEach((a, row) => {
      write(d.names[a], edge - 5, act.top + row * 13 + 10, "right");
      c.fillStyle = colour.cell;
      for (let t = 0; t < steps; t++)
        if (d.action[t] === a) c.fillRect(timeX(t), act.top + row * 13 + 2, Math.max(1, plotWidth / steps), 9);
    });
    const ground = gain.top + (negative ? gain.height / 2 : gain.height), reach = negative ? gain.height / 2 : gain.height;
    for (const t of rewarded) {
      const tall = Math.max(4, Math.sqrt(Math.abs(d.reward[t]) / most) * reach), up = d.reward[t] > 0;
      c.fillStyle = up ? colour.good : colour.bad;
      c.fillRect(timeX(t), up ? ground - tall : ground, Math.max(1.5, Math.min(6, plotWidth / steps)), tall);
    }
    const every = niceStep(steps / Math.max(2, plotWidth / 90));
    for (let s = every; s <= steps; s += every) write(String(s), timeX(s - 0.5), top + 6, "center");
    write("step", edge + plotWidth, top + 19, "right");
    const x = timeX(now + 0.5);
    c.strokeStyle = colour.ink;
    c.lineWidth = 1.5;
    c.beginPath(); c.moveTo(x, weight.top); c.lineTo(x, top - 6); c.stroke();
  }

  function drawWeights(c, panel, colour, write) {
    const image = new ImageData(steps, keys);
    const rgb = [1, 3, 5].map((i) => parseInt(colour.cell.slice(i, i + 2), 16));
    for (let t = 0; t < steps; t++)
      for (let n = 0; n < keys; n++)  // the largest value on top
        image.data.set([...rgb, Math.sqrt(at(t, d.action[t], n)) * 255], ((keys - 1 - n) * steps + t) * 4);
    const plain = idqn.make("canvas", { width: steps, height: keys });
    plain.getContext("2d").putImageData(image, 0, 0);
    c.imageSmoothingEnabled = false;
    c.drawImage(plain, edge, panel.top, plotWidth, panel.height);
    const every = Math.max(1, Math.ceil(keys / 6));
    for (let n = (keys - 1) % every; n < keys; n += every)
      write(number(d.values[n], 2), edge - 5, panel.top + (keys - n - 0.5) / keys * panel.height + 4, "right");
  }

  function drawWorth(c, panel, colour, write) {
    const own = d.action.map((a, t) => [d.q[t][a], d.u[t][a]]);
    const down = own.reduce((m, [q, u]) => Math.min(m, q - u), Infinity);
    const up = own.reduce((m, [q, u]) => Math.max(m, q + u), -Infinity);
    const y = (v) => panel.top + (up - v) / (up - down || 1) * panel.height;
    const path = (places) => {
      c.beginPath();
      places.forEach(([t, v], i) => (i ? c.lineTo(timeX(t + 0.5), y(v)) : c.moveTo(timeX(t + 0.5), y(v))));
    };
    path([...own.map(([q, u], t) => [t, q + u]), ...own.map(([q, u], t) => [t, q - u]).reverse()]);
    c.globalAlpha = 0.2; c.fillStyle = colour.cell; c.fill(); c.globalAlpha = 1;
    path(own.map(([q], t) => [t, q]));
    c.strokeStyle = colour.cell; c.lineWidth = 1.5; c.stroke(); c.lineWidth = 1;
    write(number(up), edge - 5, panel.top + 9, "right");
    write(number(down), edge - 5, panel.top + panel.height, "right");
  }

  const niceStep = (rough) => {
    const size = 10 ** Math.floor(Math.log10(rough));
    return Math.max(1, size * [1, 2, 5, 10].find((m) => m * size >= rough));
  };

  function show(t) {
    t = Math.max(0, Math.min(steps - 1, t));
    if (t === now) return;
    now = t;
    slider.value = t;
    for (const button of thumbs.children) button.setAttribute("aria-pressed", String(+button.dataset.step === t));
    const near = d.moments.reduce((best, m, i) => (Math.abs(m - t) < Math.abs(d.moments[best] - t) ? i : best), 0);
    const exact = d.moments[near] === t, picture = idqn.cut(d.screens, near, 170);
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", `screen at step ${d.moments[near] + 1}`);
    picture.style.opacity = exact ? 1 : 0.45;
    screen.replaceChildren(picture, idqn.make("figcaption", {
      textContent: exact ? `step ${t + 1}` : `nearest kept screen: step ${d.moments[near] + 1}` }));
    const beside = view.clientWidth - 170 - 2 * 23 - barsWidth;  // on a desk, all three in a row
    map.innerHTML = heatmap(t, beside > left + 10 * keys ? beside : view.clientWidth);
    values.innerHTML = bars(t);
    const a = d.action[t];
    let top = 0;
    for (let n = 1; n < keys; n++) if (at(t, a, n) > at(t, a, top)) top = n;
    told.textContent = `Step ${t + 1}: ${d.names[a]}, Q ${number(d.q[t][a])} ± ${number(d.u[t][a])}; most attention to ` +
      `${number(d.values[top])} (${number(at(t, a, top) * d.largest)}); reward ${number(d.reward[t])}.`;
    draw();
  }

  const point = (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left;
    show(Math.floor((x - edge) / plotWidth * steps));
  };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); point(event); });
  canvas.addEventListener("pointermove", (event) => { if (event.buttons) point(event); });
  new ResizeObserver(draw).observe(strip);
  window.addEventListener("themechange", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  show(d.moments[0]);
}
