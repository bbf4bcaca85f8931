// A state at a time: a map over its frame, and what is chosen when a place is blurred.
{
  const data = idqn.data("saliency"), make = idqn.make;
  const SIZE = 336; // of drawings, before the page scales them
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const shown = { state: 0, method: 0, action: 0 };

  // A frame, and a canvas over it.
  function stack() {
    const frame = make("img", { className: "pixels", alt: "" });
    const canvas = make("canvas", { width: SIZE });
    canvas.setAttribute("role", "img");
    return { frame, canvas, element: make("div", { className: "saliency-stack" }, frame, canvas) };
  }
  const warm = (share) => [255, 230 - 150 * share, 40];

  const map = stack(), turn = stack();
  const mapTitle = make("h3"), mapAbout = make("figcaption");
  const scale = make("div", { className: "saliency-scale" });
  const stops = [0, 0.25, 0.5, 0.75, 1].map((s) => `rgba(${warm(s).join(",")},${s}) ${100 * s}%`);
  const strip = make("span", { className: "saliency-strip" });
  strip.style.backgroundImage = `linear-gradient(to right, ${stops})`;
  const top = make("span");
  scale.append("0", strip, top);
  const turnLegend = make("ul", { className: "saliency-legend" });
  const turnAbout = make("figcaption");
  const screen = make("img", { className: "pixels", alt: "what a person saw" });
  const values = make("div", { className: "saliency-values", role: "group" });
  values.setAttribute("aria-label", "value of which action");
  const valuesAbout = make("p", { className: "saliency-note" });

  // Values between the middles of cells, as drawn from `rows` x `columns` levels.
  function between(cells, rows, columns, y, x) {
    const fit = (place, count) => Math.min(Math.max(place * count - 0.5, 0), count - 1);
    const v = fit(y, rows), u = fit(x, columns), i = Math.floor(v), j = Math.floor(u);
    const down = Math.min(i + 1, rows - 1), right = Math.min(j + 1, columns - 1);
    const at = (r, c) => cells[r * columns + c];
    const row = (r) => at(r, j) + (u - j) * (at(r, right) - at(r, j));
    return row(i) + (v - i) * (row(down) - row(i));
  }

  function paint(canvas, colour) {
    const { width, height } = canvas, paper = canvas.getContext("2d");
    const image = paper.createImageData(width, height);
    for (let y = 0, i = 0; y < height; y++) {
      for (let x = 0; x < width; x++, i += 4) {
        image.data.set(colour((y + 0.5) / height, (x + 0.5) / width), i);
      }
    }
    paper.putImageData(image, 0, 0);
  }

  function drawMap() {
    const state = data.states[shown.state], method = data.methods[shown.method];
    const found = shown.method === 0 ? state.actionMaps[shown.action] : state.maps[shown.method];
    const cells = bytes(found.levels), name = data.actions[shown.action];
    paint(map.canvas, (y, x) => {
      const share = between(cells, found.rows, found.columns, y, x) / 255;
      return [...warm(share), 255 * share];
    });
    mapTitle.textContent = `${method.name}, ${name}`;
    map.canvas.setAttribute("aria-label", `${method.name} map of ${name} over the newest frame`);
    const change = shown.method === 0 ? ` (Q changes by ${state.change[shown.action]})` : "";
    top.textContent = found.top === null ? "this map is 0 everywhere" : `${found.top}${change}`;
    mapAbout.textContent = `Colour: ${method.meaning}. Full colour is this map's own maximum.`;
  }

  function drawTurn() {
    const state = data.states[shown.state], { rows, columns, actions } = state.choices;
    const cells = bytes(actions), counts = new Map();
    for (const action of cells) {
      if (action !== state.chosen) counts.set(action, (counts.get(action) || 0) + 1);
    }
    const order = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a));
    const colours = new Map(order.map((action, i) => {
      const hex = idqn.colour(`--series-${Math.min(i, 7) + 1}`);
      return [action, [...[1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)), 200]];
    }));
    paint(turn.canvas, (y, x) => {
      const action = cells[Math.floor(y * rows) * columns + Math.floor(x * columns)];
      return colours.get(action) || [0, 0, 0, 0];
    });
    const share = (action) => `${data.actions[action]}: ${idqn.number(100 * counts.get(action) / data.places, 2)} %`;
    turnLegend.replaceChildren(...order.map((action) => {
      const chip = make("span", { className: "saliency-chip" });
      chip.style.background = `rgb(${colours.get(action).slice(0, 3).join(",")})`;
      return make("li", {}, chip, share(action));
    }));
    const chosen = data.actions[state.chosen];
    turn.canvas.setAttribute("aria-label", `places that change ${chosen} into another action`);
    turnAbout.textContent = order.length
      ? `Blurred at a coloured place, the agent would not choose ${chosen} but this; shares of all places.`
      : `No single place, blurred, makes the agent choose anything but ${chosen} here.`;
  }

  function drawValues() {
    const state = data.states[shown.state];
    values.replaceChildren(...data.actions.map((name, action) => {
      const button = make("button", {
        type: "button", disabled: shown.method !== 0 && action !== state.chosen,
        onclick: () => { shown.action = action; drawMap(); drawValues(); values.children[action].focus(); },
      }, make("span", {}, action === state.chosen ? `${name} ✓` : name), make("span", {}, state.q[action]));
      button.setAttribute("aria-pressed", String(action === shown.action));
      return button;
    }));
    valuesAbout.textContent = shown.method === 0
      ? "Q of each action, ✓ chosen; press one for its map."
      : "Q of each action, ✓ chosen; of this method there is the chosen action's map alone.";
  }

  function draw() {
    const state = data.states[shown.state];
    for (const { frame } of [map, turn]) frame.src = state.frame;
    screen.src = state.screen;
    drawMap();
    drawTurn();
    drawValues();
  }

  const buttons = [...document.querySelectorAll(".saliency-states button")];
  const pick = (i) => {
    buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(i === j)));
    shown.state = i;
    shown.action = data.states[i].chosen;
    draw();
  };
  buttons.forEach((button, i) => button.addEventListener("click", () => pick(i)));

  map.frame.addEventListener("load", () => {
    const high = Math.round(SIZE * map.frame.naturalHeight / map.frame.naturalWidth);
    if (map.canvas.height === high) return;
    map.canvas.height = turn.canvas.height = high;
    draw();
  });
  map.canvas.height = turn.canvas.height = SIZE;
  pick(data.first);
  const methods = idqn.choice(data.methods.map(({ name }) => name), "method", (method) => {
    shown.method = method;
    shown.action = data.states[shown.state].chosen;
    drawMap();
    drawValues();
  });
  document.getElementById("saliency-view").append(methods, make("div", { className: "row saliency-row" },
    make("figure", {}, mapTitle, map.element, scale, mapAbout),
    make("figure", {}, make("h3", { textContent: "What would change the decision" }), turn.element, turnLegend, turnAbout),
    make("div", { className: "saliency-side" },
      make("figure", {}, make("h3", { textContent: "The screen" }), screen),
      make("div", {}, make("h3", { textContent: "Values" }), values, valuesAbout))));
  window.addEventListener("themechange", drawTurn);
}
