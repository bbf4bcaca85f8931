// The gallery of decoded keys: rows are actions, columns values; one key at a time is told about.
{
  const kind = "keys", room = document.getElementById("keys-gallery"), data = idqn.data(kind);
  const columns = data.values.length, keys = data.keys, total = data.states;
  const used = keys.attended.map((count) => count > 0);
  const places = new Map(data.sources.map(([state], i) => [state, i]));
  const most = Math.max(1, ...keys.attended);
  const state = { view: 0, onlyUsed: false, large: false, selected: -1 };
  const percent = (share) => `${idqn.number(100 * share, 2)} %`;
  const nameOf = (k) => `${data.actions[Math.floor(k / columns)]}, value ${data.values[k % columns]}`;

  const load = async (url) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    return image;
  };
  const canvas = (width, height) => idqn.make("canvas", { width, height });
  const pixels = (image) => {
    const paper = canvas(image.width, image.height).getContext("2d", { willReadFrequently: true });
    paper.drawImage(image, 0, 0);
    return paper.getImageData(0, 0, image.width, image.height);
  };

  async function layer({ atlas, largest, mean }) {
    const [sheet, base] = await Promise.all([load(atlas.url), load(mean)]);
    return { atlas, largest, change: pixels(sheet), base: pixels(base).data };
  }

  // Layers are differences from a mean picture, in which 128 is none: add them, keep the brightest.
  function together(layers) {
    const { atlas, change: { width, height } } = layers[0], found = new ImageData(width, height);
    for (const { largest, change, base } of layers) {
      for (let y = 0, i = 0; y < height; y++) {
        for (let x = 0; x < width; x++, i += 4) {
          const j = 4 * ((y % atlas.height) * atlas.width + x % atlas.width);
          for (let c = 0; c < 3; c++) {
            const level = base[j + c] + (change.data[i + c] - 128) / 127 * largest;
            found.data[i + c] = Math.max(found.data[i + c], level);
          }
          found.data[i + 3] = 255;
        }
      }
    }
    const image = canvas(width, height);
    image.getContext("2d").putImageData(found, 0, 0);
    return { image, atlas };
  }

  const sheets = []; // one for each view, then the real frames
  async function ready() {
    const layers = await Promise.all(data.layers.map(layer));
    for (const { frames, atlas } of data.views) {
      sheets.push(frames ? together(frames.map((frame) => layers[frame]))
        : { atlas, image: await load(atlas.url) });
    }
    sheets.push({ atlas: data.frames, image: await load(data.frames.url) });
  }

  // Picture k of a sheet.
  function drawn(k, sheet, width) {
    const { image, atlas } = sheets[sheet], { columns, width: w, height: h } = atlas;
    const tile = Object.assign(canvas(w, h), { className: "keys-picture" });
    const x = k % columns * w, y = Math.floor(k / columns) * h;
    tile.getContext("2d").drawImage(image, x, y, w, h, 0, 0, w, h);
    Object.assign(tile.style, {
      width: `${width}px`, imageRendering: width < w ? "auto" : "pixelated",
    });
    return tile;
  }

  const about = idqn.make("p", { className: "keys-about" });
  const wide = idqn.make("div", { className: "wide keys-wide" });
  const panel = idqn.make("div", { className: "keys-panel" });
  panel.setAttribute("aria-live", "polite");

  function share(k) {
    if (!used[k]) return "never the most attended key of its action";
    return `most attended key of its action in ${percent(keys.attended[k] / total)} of states`;
  }

  function cell(k, width) {
    const button = idqn.make("button", {
      type: "button", className: "keys-key", tabIndex: -1, title: `${nameOf(k)}: ${share(k)}`,
      onclick: () => select(k),
    }, drawn(k, state.view, width));
    button.dataset.key = k;
    button.setAttribute("aria-label", button.title);
    button.setAttribute("aria-pressed", String(k === state.selected));
    if (!used[k]) button.classList.add("keys-unused");
    const bar = idqn.make("span", { className: "keys-bar" });
    bar.style.width = `${width * keys.attended[k] / most}px`;
    button.append(bar);
    return button;
  }

  function rebuild() {
    const kept = (k) => used[k] || !state.onlyUsed;
    const shownRows = data.actions.map((_, a) => a)
      .filter((a) => data.values.some((_, n) => kept(a * columns + n)));
    const shownColumns = data.values.map((_, n) => n)
      .filter((n) => data.actions.some((_, a) => kept(a * columns + n)));
    const fit = Math.floor((room.clientWidth - 104) / Math.max(1, shownColumns.length)) - 4;
    const width = state.large ? 84 : Math.max(40, Math.min(84, fit));
    const grid = idqn.make("div", { className: "keys-grid" });
    grid.style.gridTemplateColumns = `max-content repeat(${shownColumns.length}, ${width}px)`;
    grid.append(idqn.make("span", { className: "keys-corner keys-name", textContent: "value" }));
    shownColumns.forEach((n) =>
      grid.append(idqn.make("span", { className: "keys-value", textContent: data.values[n] })));
    shownRows.forEach((a) => {
      grid.append(idqn.make("span", { className: "keys-name", textContent: data.actions[a] }));
      shownColumns.forEach((n) => {
        const k = a * columns + n;
        grid.append(kept(k) ? cell(k, width) : idqn.make("span"));
      });
    });
    wide.replaceChildren(grid);
    const told = wide.querySelector(`[data-key="${state.selected}"]`);
    focusable(told || wide.querySelector("button"));
    if (!told) return;
    const box = told.getBoundingClientRect(), within = wide.getBoundingClientRect();
    const outside = box.right > within.right || box.left < within.left + 104;  // or under the names
    if (outside) wide.scrollLeft += box.left - within.left - within.width / 2;
  }

  // One key is in the order of tabs; arrows go to the others.
  function focusable(button) {
    wide.querySelectorAll("button").forEach((b) => { b.tabIndex = b === button ? 0 : -1; });
  }
  wide.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || !event.target.dataset.key) return;
    event.preventDefault();
    let a = Math.floor(event.target.dataset.key / columns), n = event.target.dataset.key % columns;
    for (;;) {
      [a, n] = [a + step[0], n + step[1]];
      if (a < 0 || a >= data.actions.length || n < 0 || n >= columns) return;
      const next = wide.querySelector(`[data-key="${a * columns + n}"]`);
      if (next) { focusable(next); next.focus(); return; }
    }
  });

  const titled = (content, ...text) =>
    idqn.make("figure", {}, content, idqn.make("figcaption", {}, ...text));
  const sourceOf = (place) => {
    const [, game, step] = data.sources[place];
    return `game ${game}, step ${step.toLocaleString("en")}`;
  };

  function select(k) {
    state.selected = k;
    wide.querySelectorAll("button").forEach((b) =>
      b.setAttribute("aria-pressed", String(Number(b.dataset.key) === k)));
    focusable(wide.querySelector(`[data-key="${k}"]`));
    tell(k);
    const below = panel.getBoundingClientRect().top - 0.6 * innerHeight;
    if (below > 0) scrollBy(0, below); // else nobody would notice that it is there
  }

  function tell(k) {
    const half = Math.floor((room.clientWidth - 24) / 2); // two beside each other on a phone
    const size = Math.min(half, Math.max(132, Math.min(168, 2 * sheets[0].atlas.width)));
    const pictures = data.views.map((view, i) => titled(drawn(k, i, size), view.name));
    panel.replaceChildren(
      idqn.make("h3", { textContent: nameOf(k) }),
      idqn.make("p", { className: used[k] ? "" : "keys-warning", textContent: usage(k) }),
      idqn.make("div", { className: "row" }, ...pictures),
    );
    if (!used[k]) return;
    const top = keys.top[k].map((source, i) => [source, keys.topAttention[k][i]])
      .filter(([source]) => source >= 0);
    panel.append(
      idqn.make("h3", { textContent: "Real states that attend to it most, and the nearest one" }),
      idqn.make("div", { className: "row" },
        ...top.map(([source, attention]) => framed(source, size, `attention ${percent(attention)}`)),
        framed(keys.nearest[k], size, `nearest, at distance ${idqn.number(keys.distance[k])}`)),
      idqn.make("p", { className: "keys-scale", textContent: scale(k) }),
    );
  }

  function framed(source, size, text) {
    const place = places.get(source);
    const picture = drawn(place, sheets.length - 1, size);
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", `state of ${sourceOf(place)}`);
    return titled(picture, text, idqn.make("br"), sourceOf(place));
  }

  function usage(k) {
    const count = (n) => n.toLocaleString("en");
    const action = data.actions[Math.floor(k / columns)];
    const mean = `Mean attention is ${percent(keys.attention[k])}`;
    if (!used[k]) {
      return `Never the most attended key of ${action} in ${count(total)} states: its picture means ` +
        `nothing. ${mean}.`;
    }
    return `Most attended key of ${action} in ${count(keys.attended[k])} of ${count(total)} states; ` +
      `${action} was chosen in ${count(keys.chosen[k])} of these. ${mean}. Its picture differs from ` +
      `the mean picture by ${idqn.number(keys.departure[k], 2)} grey levels, decoded states by ` +
      `${idqn.number(data.scale.departure, 2)}.`;
  }

  function scale(k) {
    const { gap, spread, state: length, key } = data.scale;
    const say = (value) => idqn.number(value);
    const between = gap === null ? "" : gap === 0
      ? `Half of all states have a twin at distance 0; two states are ${say(spread)} apart (median). `
      : `A state's nearest other is at ${say(gap)}, two states are ${say(spread)} apart (medians). `;
    const short = key < 0.6 * length ? ", so that most of a key's distance is due to its length" : "";
    return `For comparison: ${between}States are ${say(length)} long, keys ${say(key)}${short}; the ` +
      `largest cosine of this key with any state is ${say(keys.cosine[k])}.`;
  }

  const legend = idqn.make("p", { className: "keys-legend" },
    idqn.make("span", { className: "keys-sample" }),
    ` hatched: never the most attended key of its action in ${total.toLocaleString("en")} states. `,
    idqn.make("span", { className: "keys-bar keys-bar-sample" }),
    ` how often it is; the longest bar is ${percent(most / total)} of states.`);
  const change = (name, value) => { state[name] = value; if (sheets.length) rebuild(); };
  const views = idqn.choice(data.views.map((v) => v.name), "view", (i) => {
    about.textContent = data.views[i].about;
    change("view", i);
  });
  const row = idqn.make("div", { className: "row keys-choices" },
    idqn.choice(["all keys", "only keys in use"], "which keys", (i) => change("onlyUsed", i === 1)),
    idqn.choice(["fit", "large"], "size of the pictures", (i) => change("large", i === 1)));
  room.append(views, row, about, wide, legend, panel);
  // At first, the key that is told about is the one that most chosen actions went by.
  state.selected = keys.chosen.indexOf(Math.max(...keys.chosen));
  ready().then(() => {
    rebuild();
    tell(state.selected);
    let before = room.clientWidth; // phones resize the page whenever their bars come and go
    window.addEventListener("resize", () => {
      if (room.clientWidth !== before) rebuild();
      before = room.clientWidth;
    });
  });
}
