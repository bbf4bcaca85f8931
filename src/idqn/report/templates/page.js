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
    const whole = String(Math.trunc(Math.abs(value))).length;
    const places = Math.max(0, digits - whole);
    return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places })
      .replace("-", "−");
  },

  colour: (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim(),
};

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  window.dispatchEvent(new Event("themechange"));
});
