// A player: the screen with what the chosen action depends on, attention, and values, step by step.
{
  const film = idqn.data("film");
  const saliency = idqn.bytes(film.saliency);  // [T, R, K], shares of the step's peak
  const attention = film.attention === null ? null : idqn.bytes(film.attention);  // [T, A, N]
  const { atlas, actions } = film;
  const steps = film.action.length, [rows, columns] = film.grid;
  const soFar = film.reward.map(((sum) => (r) => (sum += r))(0));
  const sheet = new Image();
  let step = 0, over = 0, relative = 0, speed = 1, ready = false;

  // ---- what there is ----
  const screen = idqn.still("the screen"), strip = idqn.still("the whole game");
  const heat = attention && idqn.still("attention"), bars = idqn.still("values of the actions");
  const said = idqn.make("p", { className: "film-step" });
  const scale = idqn.make("p", { className: "film-note" });
  const going = idqn.player({ steps, label: "step of the game", strip,
    rate: () => film.steps_per_second * speed, draw: (to) => { step = to; draw(); } });
  const moves = idqn.make("div", { className: "controls film-moves" }, ...going.buttons);
  const titled = (text, ...content) =>
    idqn.make("figure", {}, idqn.make("h3", { textContent: text }), ...content);
  const labelled = (group) => {
    group.prepend(idqn.make("span", { textContent: group.getAttribute("aria-label") }));
    return group;
  };
  const spread = film.uncertainty === null ? "" : " ± U";
  const left = idqn.make("div", { className: "film-left" }, screen, said, strip, going.range, moves,
    labelled(idqn.choice(["normal", "slow", "fast"], "speed", (i) => { speed = [1, 0.25, 4][i]; })),
    labelled(idqn.choice(["per step", "per film", "off"], "saliency",
      (i) => { over = i; draw(); })),
    scale);
  const right = idqn.make("div", { className: "film-right" });
  if (heat) right.append(titled("Attention to the keys of each action", heat));
  right.append(titled("Values of the actions", idqn.choice([`Q${spread}`, "Q − mean of the actions"],
    "values", (i) => { relative = i; draw(); }), bars));
  const player = idqn.make("div", { className: "row film" }, left, right);
  document.getElementById("film-player").append(player);

  player.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (move && event.target !== going.range) going.go(step + move);
    else if (event.key === " " && event.target.tagName !== "BUTTON") going.play.click();
    else return;
    event.preventDefault();
  });

  // ---- drawing ----
  function text(c, words, x, y, align = "left", colour = "--ink") {
    c.fillStyle = idqn.colour(colour);
    c.textAlign = align;
    c.fillText(words, x, y);
  }
  const plain = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });
  const row = 20;
  function name(c, action) {
    const chosen = action === film.action[step];
    c.font = `${chosen ? "bold " : ""}12px system-ui, sans-serif`;
    text(c, actions[action], 0, (action + 0.5) * row, "left", chosen ? "--series-2" : "--ink");
    c.font = "12px system-ui, sans-serif";
  }

  const mask = idqn.make("canvas", { width: columns, height: rows });
  function drawScreen() {
    const large = Math.max(1, Math.ceil(480 / atlas.height));
    const width = atlas.width * large, height = atlas.height * large;
    if (screen.width !== width) Object.assign(screen, { width, height });
    const c = screen.getContext("2d");
    c.globalCompositeOperation = "source-over";
    c.imageSmoothingEnabled = false;
    c.drawImage(sheet, (step % atlas.columns) * atlas.width,
      Math.floor(step / atlas.columns) * atlas.height, atlas.width, atlas.height, 0, 0, width, height);
    if (over === 2) return;
    c.globalCompositeOperation = "saturation";  // most of its colour goes ...
    c.fillStyle = "rgba(128, 128, 128, .65)";
    c.fillRect(0, 0, width, height);
    c.globalCompositeOperation = "source-over";  // ... and a quarter of its light
    c.fillStyle = "rgba(0, 0, 0, .25)";
    c.fillRect(0, 0, width, height);
    const picture = new ImageData(columns, rows);
    const full = over === 1 ? film.peak[step] / film.usual_peak : 1;
    for (let i = 0; i < rows * columns; i++) {
      const share = Math.min(1, saliency[step * rows * columns + i] / 255 * full);
      picture.data.set([255, 230 - 150 * share, 40, 255 * share], 4 * i);
    }
    mask.getContext("2d").putImageData(picture, 0, 0);
    c.imageSmoothingEnabled = true;
    c.drawImage(mask, 0, 0, width, height);
  }

  function drawStrip() {
    const [c, width] = idqn.blank(strip, 64);
    const q = film.action.map((a, t) => film.q[t][a]);
    const low = Math.min(...q), high = Math.max(...q);
    const x = (t) => 1 + t / Math.max(steps - 1, 1) * (width - 2);
    c.strokeStyle = idqn.colour("--series-1");
    c.lineWidth = 1.5;
    c.beginPath();
    q.forEach((v, t) => c.lineTo(x(t), 50 - 30 * (v - low) / Math.max(high - low, 1e-9)));
    c.stroke();
    film.reward.forEach((r, t) => {
      if (r === 0) return;
      c.fillStyle = idqn.colour(r > 0 ? "--series-3" : "--series-7");
      c.fillRect(x(t) - 1, 56, 2, 8);
    });
    c.fillStyle = idqn.colour("--series-2");
    c.fillRect(x(step) - 1, 16, 2, 48);
    text(c, `Q of the chosen action, ${idqn.number(low)} to ${idqn.number(high)} · ticks: rewards`,
      0, 7, "left", "--soft");
  }

  function drawHeat() {
    const keys = film.values.length;
    const [c, width] = idqn.blank(heat, row * actions.length + 44);
    const from = idqn.roomForNames(c, actions), cell = (width - from) / keys, bottom = row * actions.length;
    const [empty, full] = ["--rule", "--cell"].map(idqn.colour);
    actions.forEach((_, a) => {
      name(c, a);
      for (let k = 0; k < keys; k++) {
        const weight = attention[(step * actions.length + a) * keys + k] / 255;
        c.fillStyle = empty;
        c.globalAlpha = 0.35;
        c.fillRect(from + k * cell, a * row, cell - 1, row - 1);
        c.fillStyle = full;
        c.globalAlpha = weight;
        c.fillRect(from + k * cell, a * row, cell - 1, row - 1);
        c.globalAlpha = 1;
      }
    });
    const every = Math.ceil(keys / Math.floor((width - from) / 48));
    for (let k = 0; k < keys; k += every) {
      text(c, idqn.number(film.values[k], 2), from + (k + 0.5) * cell, bottom + 9, "center");
    }
    text(c, `return the key stands for; full colour: ${idqn.number(film.largest_attention)}`,
      width, bottom + 32, "right", "--soft");
  }

  function drawBars() {
    const [c, width] = idqn.blank(bars, row * actions.length + 24);
    const q = film.q[step], mean = q.reduce((a, b) => a + b) / q.length;
    const [low, high] = relative ? [-film.largest_gap, film.largest_gap] : film.q_range;
    const from = idqn.roomForNames(c, actions), room = width - from - 56, bottom = row * actions.length;
    const x = (v) => from + (v - low) / (high - low) * room;
    actions.forEach((_, a) => {
      const value = relative ? q[a] - mean : q[a], middle = (a + 0.5) * row;
      name(c, a);
      c.fillStyle = idqn.colour(a === film.action[step] ? "--series-2" : "--cell");
      c.fillRect(Math.min(x(0), x(value)), middle - 6, Math.abs(x(value) - x(0)), 12);
      if (!relative && film.uncertainty !== null) {
        const u = film.uncertainty[step][a];
        c.fillStyle = idqn.colour("--ink");
        c.fillRect(x(value - u), middle - 1, x(value + u) - x(value - u), 2);
      }
      text(c, idqn.number(value), width, middle, "right");
    });
    c.fillStyle = idqn.colour("--soft");
    c.fillRect(x(0) - 0.5, 0, 1, bottom);
    [low, high].forEach((v, i) =>
      text(c, idqn.number(v), x(v), bottom + 12, i ? "right" : "left", "--soft"));
    if (low < 0 && x(0) - from > 50) text(c, "0", x(0), bottom + 12, "center", "--soft");
  }

  function draw() {
    if (!ready) return;
    drawScreen();
    drawStrip();
    if (heat) drawHeat();
    drawBars();
    const chosen = actions[film.action[step]], q = idqn.number(film.q[step][film.action[step]]);
    said.textContent = `step ${step + 1} of ${steps}: ${chosen}, reward ${plain(film.reward[step])}, ` +
      `so far ${plain(soFar[step])}`;
    going.range.setAttribute("aria-valuetext", said.textContent);
    screen.setAttribute("aria-label", `the screen at ${said.textContent}`);
    bars.setAttribute("aria-label", `values of the actions; ${chosen} is chosen, with Q = ${q}`);
    const red = over === 1 ? `${plain(film.usual_peak)} or more` : plain(film.peak[step]);
    scale.textContent = over === 2 ? "The screen as a person sees it." :
      `Warm places: blurring them changes Q of ${chosen}; red: ½(ΔQ)² = ${red}.`;
  }
  sheet.onload = () => { ready = true; draw(); };
  sheet.src = atlas.url;
  new ResizeObserver(draw).observe(player);
  window.addEventListener("themechange", draw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

  const video = document.querySelector("#film video");
  if (video) document.querySelector("#film a[download]").href = video.src;  // a page may travel alone
}
