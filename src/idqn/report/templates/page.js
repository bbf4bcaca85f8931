// What all drawings share. Each drawing's own script is run after this one.
"use strict";
const idqn = {
  data: (kind) => JSON.parse(document.getElementById(`data-${kind}`).textContent),

  // An element: idqn.make("p", {className: "soft"}, "text", child, ...)
  make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  },

  // Buttons of which one is pressed; calls back with its index, now and at each change.
  choice(names, label, onChange) {
    const group = idqn.make("div", { className: "controls", role: "group" });
    group.setAttribute("aria-label", label);
    const buttons = names.map((name, i) =>
      idqn.make("button", { type: "button", textContent: name, onclick: () => press(i) }));
    const press = (i) => {
      buttons.forEach((b, j) => b.setAttribute("aria-pressed", String(i === j)));
      onChange(i);
    };
    group.append(...buttons);
    press(0);
    return group;
  },

  // One picture of an atlas {url, columns, rows, width, height}, drawn `size` pixels wide.
  cut(atlas, index, size) {
    const scale = size / atlas.width;
    const tile = idqn.make("div", { className: "pixels" });
    Object.assign(tile.style, {
      width: `${size}px`, height: `${atlas.height * scale}px`,
      backgroundImage: `url(${atlas.url})`,
      backgroundSize: `${atlas.columns * size}px ${atlas.rows * atlas.height * scale}px`,
      backgroundPosition:
        `-${(index % atlas.columns) * size}px -${Math.floor(index / atlas.columns) * atlas.height * scale}px`,
    });
    return tile;
  },

  number(value, digits = 3) {
    if (value === null || !isFinite(value)) return "–";
    // as rounded: 9.97 to two digits is 10, not 10.0; and nothing is never less than nothing
    const whole = String(Math.trunc(Number(Math.abs(value).toPrecision(digits)))).length;
    const places = Math.max(0, digits - whole);
    const text = Math.abs(value).toLocaleString("en",
      { minimumFractionDigits: places, maximumFractionDigits: places });
    return value < 0 && /[1-9]/.test(text) ? `−${text}` : text;
  },

  bytes: (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)),

  button(text, label, onclick) {
    const made = idqn.make("button", { type: "button", textContent: text, title: label, onclick });
    made.setAttribute("aria-label", label);
    return made;
  },

  // A canvas that stands for a picture.
  still(label) {
    const canvas = idqn.make("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label);
    return canvas;
  },

  // A canvas as wide as it is shown and so high, cleared, in CSS pixels: its context and width.
  blank(canvas, height) {
    const width = canvas.clientWidth, fine = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * fine);
    canvas.height = Math.round(height * fine);
    const c = canvas.getContext("2d");
    c.scale(fine, fine);
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    return [c, width];
  },

  // What goes through `steps` moments: buttons, a slider, and `strip` to point at. `rate()` is how
  // many a second are played; `draw` is called after each move, with where it led.
  player({ steps, first = 0, label, strip, rate, draw }) {
    let timer = null;
    const range = idqn.make("input", { type: "range", min: 0, max: steps - 1, value: first });
    range.setAttribute("aria-label", label);
    const go = (to) => {
      player.step = Math.min(Math.max(to, 0), steps - 1);
      range.value = player.step;
      draw(player.step);
    };
    const show = () => {
      const does = timer === null ? "play" : "pause";
      Object.assign(play, { textContent: timer === null ? "▶" : "❚❚", title: does });
      play.setAttribute("aria-label", does);
    };
    const stop = () => {
      clearTimeout(timer);
      timer = null;
      show();
    };
    const start = () => {
      if (player.step === steps - 1) go(0);
      const on = () => {
        go(player.step + 1);
        if (player.step === steps - 1) stop();
        else timer = setTimeout(on, 1000 / rate());
      };
      timer = setTimeout(on, 0);
      show();
    };
    const play = idqn.button("▶", "play", () => (timer === null ? start() : stop()));
    range.oninput = () => go(Number(range.value));
    strip.onpointerdown = strip.onpointermove = (event) => {
      if (event.type === "pointermove" && !event.buttons) return;
      const box = strip.getBoundingClientRect();
      go(Math.round((event.clientX - box.left) / box.width * (steps - 1)));
    };
    const player = { step: first, go, range, play, buttons: [
      idqn.button("«", "first step", () => go(0)),
      idqn.button("‹", "one step back", () => go(player.step - 1)), play,
      idqn.button("›", "one step on", () => go(player.step + 1)),
      idqn.button("»", "last step", () => go(steps - 1))] };
    return player;
  },

  // Pixels for the names of actions, the chosen one of which is bold.
  roomForNames(c, names) {
    c.font = "bold 12px system-ui, sans-serif";
    return 8 + Math.max(...names.map((name) => c.measureText(name).width));
  },

  colour: (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim(),
};

// Where there is little room, an interval goes to the next line as a whole.
for (const cell of document.querySelectorAll("td")) {
  if (cell.children.length) continue;
  cell.textContent = cell.textContent.replace(/\([^()]+ to [^()]+\)/g,
    (interval) => interval.replaceAll(" ", "\u00a0"));
}

// Where one is on the page, in the row of links.
{
  const row = document.querySelector("nav");
  const links = new Map([...row.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      const link = links.get(target.id);
      if (!isIntersecting) { link.removeAttribute("aria-current"); continue; }
      link.setAttribute("aria-current", "true");
      row.scrollTo({ left: link.offsetLeft - (row.clientWidth - link.offsetWidth) / 2 });
    }
  }, { rootMargin: "-30% 0px -69% 0px" });  // a line: the section that is there is read
  for (const section of document.querySelectorAll("main > section"))
    if (links.has(section.id)) seen.observe(section);
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  window.dispatchEvent(new Event("themechange"));
});
