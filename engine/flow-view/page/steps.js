// The steps as a graph from left to right: a box per step, with its instances by state. Knows no instance.

import { css, canvas } from "./draw.js";
import { changed, el } from "./card.js";
import { w } from "./words.js";
import { STATES } from "./fold.js";
// The steps of each layer, near the steps that they need.
function layers(steps) {
  const all = [];
  const row = new Map();
  steps.forEach((step, at) => (all[step.layer] = all[step.layer] || []).push(at));
  for (const layer of all) {
    const mean = (at) => steps[at].needs.reduce((sum, need) => sum + row.get(need), 0) / (steps[at].needs.length || 1);
    layer.sort((a, b) => mean(a) - mean(b) || a - b);
    layer.forEach((at, n) => row.set(at, n - (layer.length - 1) / 2));
  }
  return all;
}

// `counts` has a map of states for each step; `pick` selects a step.
export function drawSteps(place, { steps, counts, selected, pick }) {
  const key = JSON.stringify([steps, document.documentElement.lang]);
  if (changed(place, key)) {
    const box = (at) => el("button", { type: "button", "data-step": at, onclick: () => pick(steps[at].step) }, el("b", {}, steps[at].step), el("span"), el("div"));
    place.replaceChildren(el("canvas", { "aria-hidden": "true" }), ...layers(steps).map((layer) => el("div", { class: "layer" }, layer.map(box))));
  }
  for (const box of place.querySelectorAll("button")) {
    const { step } = steps[box.dataset.step];
    const states = STATES.filter((one) => counts.get(step)?.get(one)).map((one) => [one, counts.get(step).get(one)]);
    box.setAttribute("aria-pressed", String(selected === step));
    const said = states.map(([one, n]) => `${n} ${w(one)}`).join(", ");
    if (box.title === said) continue;
    box.title = said;
    box.children[1].textContent = said;
    box.children[2].replaceChildren(...states.map(([one, n]) => {
      const part = el("i", { class: one });
      part.style.flexGrow = n;
      return part;
    }));
  }
  const spot = (at) => place.querySelector(`[data-step="${at}"]`);
  const [height, width] = [place.clientHeight, place.scrollWidth];
  const lines = place.querySelector("canvas");
  if (!changed(lines, [height, width, devicePixelRatio, css("--line"), selected, ...steps.map((_, at) => spot(at).offsetTop)].join())) return;
  lines.style.width = `${width}px`;
  const { ink } = canvas(place, height, width);
  steps.forEach((step, at) => step.needs.forEach((need) => {
    const [from, to] = [spot(need), spot(at)];
    const [x0, y0, x1, y1] = [from.offsetLeft + from.offsetWidth, from.offsetTop + from.offsetHeight / 2, to.offsetLeft, to.offsetTop + to.offsetHeight / 2];
    const is = [step.step, steps[need].step].includes(selected);
    Object.assign(ink, { strokeStyle: css(is ? "--accent" : "--edge"), lineWidth: is ? 2 : 1.2 });
    ink.beginPath();
    ink.moveTo(x0, y0);
    ink.bezierCurveTo(x0 + 24, y0, x1 - 24, y1, x1, y1);
    ink.stroke();
  }));
}
