// Draws lanes and curves on canvases. Knows events only as the fold gives them.

import { clock, duration, number, w } from "./words.js";

// The page's colours. Asking for thousands takes long, so they are asked for once a picture.
let known = new Map();
export function css(name) {
  if (!known.has(name)) known.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return known.get(name);
}
const COLOURS = 8;
export const colour = (n) => css(`--s${n % COLOURS}`);

// A canvas as wide as its place, sharp on every screen.
export function canvas(place, height, width = place.clientWidth) {
  known = new Map();
  const element = place.querySelector("canvas");
  const scale = window.devicePixelRatio || 1;
  Object.assign(element, { width: Math.round(width * scale), height: Math.round(height * scale) });
  element.style.height = `${height}px`;
  const ink = element.getContext("2d");
  ink.setTransform(scale, 0, 0, scale, 0, 0);
  ink.clearRect(0, 0, width, height);
  Object.assign(ink, { font: `11px ${css("--font")}`, textBaseline: "middle" });
  return { element, ink, width };
}

// Round steps of an axis.
function ticks(from, to, most, steps) {
  const span = to - from;
  const step = steps.find((one) => span / one <= most) || 10 ** Math.ceil(Math.log10(span / most));
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.floor(to / step + 1e-9) - first + 1 }, (_, n) => (first + n) * step);
}

const SECONDS = [0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

// Attempts that overlap lie below each other; the end of one and the start of the next may.
function pack(attempts, slack) {
  const ends = [];
  for (const bar of attempts.sort((a, b) => a.from - b.from || a.attempt.a - b.attempt.a)) {
    let row = ends.findIndex((before) => before.to <= bar.from + Math.min(slack, Math.max(bar.to - bar.from, before.to - before.from) / 4));
    if (row < 0) row = ends.length;
    ends[row] = bar;
    bar.row = row;
  }
  return Math.max(1, ends.length);
}

// The first of these texts that fits. If none does, the start of the last one, never with a part of a number.
function fitted(ink, texts, room) {
  const fits = (text) => text !== "…" && ink.measureText(text).width <= room;
  const last = texts.at(-1);
  const starts = [...last].map((_, n) => `${last.slice(0, last.length - n - 1).replace(/[\w.]+$/, "")}…`);
  return [...texts, ...starts].find(fits) || "";
}

// The bars of each lane, and what the scheduler expects there. `whole` has what came after the moment, too.
function lanes(fold, whole, to, ahead, progress) {
  const machine = whole.start ? whole.start.gpus : [];
  const lane = (name, gpu) => ({ name, gpu, bars: [] });
  const all = new Map([...machine].sort((a, b) => a.index - b.index).map((gpu) => [gpu.uuid, lane(w("gpu", gpu.index), gpu.uuid)]));
  const [cpus, others] = [{ ...lane(w("cpus")), cpus: true }, lane("GPU")];
  const on = (gpus) => (gpus.length ? [...new Set(gpus.map((gpu) => all.get(gpu) || others))] : [cpus]);
  for (const attempt of whole.attempts.values()) {
    const shown = fold.attempts.get(attempt.a);
    const gpus = attempt.requested && !attempt.gpus.length ? [null] : attempt.gpus;
    const rest = progress.get(attempt.a)?.ends_at || 0;
    for (const of of on(gpus)) of.bars.push({ attempt: shown || attempt, ghost: !shown, rest: rest > to, from: attempt.began, to: attempt.ended ?? Math.max(rest, to) });
  }
  for (const one of ahead) {
    for (const of of on(one.gpus.map((at) => machine[at]?.uuid))) of.bars.push({ attempt: one, ahead: true, from: Math.max(one.from, fold.now), to: one.to });
  }
  return [...all.values(), others, cpus].filter((of) => of.bars.length || (of !== others && of !== cpus));
}

// A pattern of diagonal lines.
function hatch(ink, style) {
  const tile = new OffscreenCanvas(4, 4).getContext("2d");
  tile.fillStyle = style;
  for (const n of [0, 1, 2, 3]) tile.fillRect(n, 3 - n, 1.3, 1.3);
  return ink.createPattern(tile.canvas, "repeat");
}

// Calls `paint` with the start, the end and the share of the time that an attempt waited for data, as its epochs say. Epochs
// that are narrower than a pixel are drawn as one.
function waits({ began, epochs }, since, x, paint) {
  let [before, waited, all] = [began, 0, 0];
  for (const { t, metrics } of epochs) {
    if (t < since || !(metrics.epoch_time > 0) || !(metrics.data_wait >= 0)) continue;
    [waited, all] = [waited + metrics.data_wait, all + metrics.epoch_time];
    const from = x(Math.max(before, t - 1000 * all));
    if (x(t) - from < 1) continue;
    if (waited > 0) paint(from, x(t), Math.min(1, waited / all));
    [before, waited, all] = [t, 0, 0];
  }
}

// The range that is being dragged.
function dragged(ink, [a, b], top, bottom) {
  Object.assign(ink, { globalAlpha: 0.15, fillStyle: css("--accent") });
  ink.fillRect(Math.min(a, b), top, Math.abs(b - a), bottom - top);
  ink.globalAlpha = 1;
}

// Draws a run until `end` and its forecast until `edge`, as of the moment `until`; with `zoom` only that range of times.
// Returns the marks that it used, and the time at a place.
export function drawLanes(place, { fold, whole, until, end, edge, zoom, drag, ahead, progress, colourOf, chosen }) {
  const narrow = place.clientWidth < 560;
  const [left, top, bottom, right] = [narrow ? 46 : 58, 6, 22, 10];
  const rows = lanes(fold, whole, end, ahead, progress);
  let height = top;
  for (const lane of rows) {
    // The forecast of an earlier moment may cover what happened later.
    lane.rows = Math.max(...["ahead", "ghost"].map((not) => pack(lane.bars.filter((bar) => !bar[not]), (end - whole.began) / 250)));
    lane.each = lane.rows > 24 ? 4 : lane.rows > 10 ? 9 : lane.rows > 4 ? 15 : 20;
    lane.top = height;
    height += lane.rows * lane.each + 9;
  }
  height += bottom;
  const { ink, width } = canvas(place, height);
  const plot = width - left - right;
  const [began, until_] = zoom || [whole.began, edge];
  const span = Math.max(1000, until_ - began);
  const x = (t) => left + Math.max(0, Math.min(1, (t - began) / span)) * plot;
  const [text, faint, line, ground, warn, bad] = ["--text", "--faint", "--line", "--ground", "--warn", "--bad"].map(css);
  const lines = hatch(ink, ground);
  ink.textAlign = "center";
  const since = (began - whole.began) / 1000;
  for (const at of ticks(since, since + span / 1000, plot / (narrow ? 70 : 90), SECONDS)) {
    const px = Math.round(x(whole.began + at * 1000)) + 0.5;
    ink.fillStyle = line;
    ink.fillRect(px, top, 1, height - bottom - top);
    ink.fillStyle = faint;
    if (px < width - 16) ink.fillText(clock(at, span / 1000), Math.max(px, left + 10), height - bottom / 2 + 2);
  }
  const [hits, marks] = [[], new Set()];
  ink.textAlign = "left";
  for (const lane of rows) {
    ink.fillStyle = text;
    ink.fillText(lane.name, 2, lane.top + Math.min(lane.rows * lane.each, 20) / 2);
    ink.fillStyle = line;
    ink.fillRect(0, lane.top + lane.rows * lane.each + 4, width, 1);
    for (const bar of lane.bars.filter((bar) => bar.to >= began && bar.from <= began + span)) {
      const { attempt, ghost } = bar;
      const one = whole.instances.get(attempt.i);
      const [y, h] = [lane.top + bar.row * lane.each, lane.each - (lane.each > 6 ? 3 : 1)];
      const [from, to] = [x(bar.from), Math.max(x(bar.from) + 2, x(bar.to) - 0.5)];
      const now = bar.ahead ? to : Math.min(to, Math.max(from, x(until)));
      const round = (a, b) => {
        const w = Math.max(0, b - a);
        ink.beginPath();
        ink.roundRect(a, y, w, h, Math.min(3, h / 3, w / 2));
      };
      const fill = (to, style, alpha) => {
        round(from, to);
        Object.assign(ink, { globalAlpha: alpha, fillStyle: style });
        ink.fill();
        ink.globalAlpha = 1;
      };
      const outline = (inset, to, style, width, dash = []) => {
        round(from + inset, to - inset);
        Object.assign(ink, { strokeStyle: style, lineWidth: width });
        ink.setLineDash(dash);
        ink.stroke();
      };
      const own = colour(colourOf(one ? one.step : ""));
      const mark = (name, alpha, style, ...box) => {
        Object.assign(ink, { globalAlpha: alpha, fillStyle: style });
        ink.fillRect(...box);
        ink.globalAlpha = 1;
        marks.add(name);
      };
      const { outcome, queued, ended, ready, released, epochs = [] } = attempt;
      if (bar.ahead || bar.rest) {
        outline(0.5, to, own, 1, [4, 3]);
        marks.add("ahead");
      } else if (ghost || now < to - 1) fill(to, own, 0.16);
      if (!ghost && !bar.ahead) {
        fill(now, own, queued && ended === null ? 0.35 : 1);
        // Filled from below up to the load, paler above. Time that waited for data is hatched from above.
        const result = ended !== null && one?.attempts.at(-1) === attempt.a ? one.result : null;
        const [used, all] = lane.cpus ? [result?.cores, attempt.cpus] : [result?.load, 1];
        if (typeof used === "number") mark("loaded", 0.3, ground, from, y, now - from, h * Math.max(0, 1 - used / all));
        waits(attempt, began, x, (a, b, share) => mark("waited", 0.9, lines, a, y, b - a, h * share));
        // Other programs on its GPU or on the CPUs: the line below is stronger if they used more.
        const others = result?.foreign_processes.includes(lane.gpu) ? 1 : 2 * (result?.foreign_cpu || 0);
        if (others > 0.1 && h > 6) mark("others", Math.min(1, others), warn, from, y + h, now - from, 2);
        if (ready && h > 6) mark("barrier", 0.55, ground, x(ready), y, x(Math.min(released || until, until)) - x(ready), h);
        let last = -9;
        for (const epoch of h > 14 ? epochs : []) {
          if (epoch.t < began || x(epoch.t) - last < 4) continue;
          last = x(epoch.t);
          mark("epoch", 0.75, ground, Math.round(last), y + h - 4, 1, 4);
        }
        if (outcome && outcome !== "ok") {
          outline(1, now, { cancelled: faint, out_of_memory: warn }[outcome] ?? bad, 2);
          marks.add({ cancelled: "cancelled", out_of_memory: "out_of_memory" }[outcome] ?? "failed");
        }
      }
      if (chosen === attempt.i) outline(0, to, text, 1.5);
      if (h > 12 && one && !ghost && now - from > 30) {
        const inside = /\[(.*)\]$/.exec(one.label)?.[1] ?? one.label;
        const what = bar.ahead ? `${duration((attempt.to - attempt.from) / 1000)} · ` : outcome && outcome !== "ok" ? `${w(outcome)} · ` : "";
        const name = fitted(ink, [what + one.label, what + inside, inside, inside.replace(/[^,=]+=/g, "")], now - from - 10);
        Object.assign(ink, { fillStyle: bar.ahead ? text : css("--on-bar"), strokeStyle: own, lineWidth: 3 });
        ink.setLineDash([]);
        if (!bar.ahead) ink.strokeText(name, from + 5, y + h / 2 + 0.5);
        ink.fillText(name, from + 5, y + h / 2 + 0.5);
      }
      hits.push({ x: from, y, w: Math.max(to - from, 5), h: lane.each, i: attempt.i, attempt, ghost, ahead: bar.ahead });
    }
  }
  ink.fillStyle = css("--accent");
  if (until >= began && until <= began + span) ink.fillRect(Math.round(x(until)) - 1, 2, 1.5, height - bottom);
  if (drag) dragged(ink, drag, top, height - bottom);
  return { hits, marks, width, left, right, share: zoom ? 1 : (end - began) / span, at: (place) => began + ((place - left) / plot) * span };
}

// Lines with a hover: `lines` have a name, a colour and points [x, y]. `zoom` is a range of x. Returns the point near the
// mouse, and the x at a place.
export function drawLines(place, { lines, x: xName, log, height, hover, zoom, drag }) {
  const [top, bottom, right] = [10, 26, 12];
  const { ink, width } = canvas(place, height);
  const within = ([x]) => !zoom || (x >= zoom[0] && x <= zoom[1]);
  const drawn = lines.map((one) => one.points.filter(([, y]) => !log || y > 0));
  const points = drawn.flatMap((all) => (all.some(within) ? all.filter(within) : all));
  if (!points.length) return { near: null };
  const scale = log ? Math.log10 : (v) => v;
  const range = (at) => points.reduce(([a, b], point) => [Math.min(a, point[at]), Math.max(b, point[at])], [Infinity, -Infinity]);
  let [x0, x1] = zoom || range(0);
  let [y0, y1] = range(1).map(scale);
  if (x0 === x1) [x0, x1] = [x0 - 0.5, x1 + 0.5];
  const room = (y1 - y0) * 0.06 || Math.abs(y1) * 0.1 || 1;
  // A share or a time that is never negative has no room below 0.
  [y0, y1] = [!log && y0 >= 0 && y0 - room < 0 ? 0 : y0 - room, y1 + room];
  const magnitude = 10 ** Math.floor(Math.log10((y1 - y0) / 5));
  const steps = [1, 2, 5, 10].map((n) => n * magnitude);
  const marks = ticks(y0, y1, 6, steps);
  const shown = (mark) => {
    if (log) return number(10 ** mark);
    const digits = Math.max(0, -Math.floor(Math.log10(steps.find((one) => (y1 - y0) / one <= 6) || magnitude)));
    return Math.abs(mark) >= 1e6 ? mark.toExponential(1) : mark.toFixed(Math.min(6, digits));
  };
  const left = 14 + Math.max(...marks.map((mark) => ink.measureText(shown(mark)).width));
  const at = (place) => x0 + ((place - left) / (width - left - right)) * (x1 - x0);
  const px = (v) => left + ((v - x0) / (x1 - x0)) * (width - left - right);
  const py = (v) => top + (1 - (scale(v) - y0) / (y1 - y0)) * (height - top - bottom);
  const [faint, line] = ["--faint", "--line"].map(css);
  for (const mark of marks) {
    const y = Math.round(top + (1 - (mark - y0) / (y1 - y0)) * (height - top - bottom)) + 0.5;
    ink.fillStyle = line;
    ink.fillRect(left, y, width - left - right, 1);
    Object.assign(ink, { fillStyle: faint, textAlign: "right" });
    ink.fillText(shown(mark), left - 8, y);
  }
  ink.textAlign = "center";
  const time = xName === "t";
  for (const mark of ticks(x0, x1, (width - left) / 80, time ? SECONDS : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000])) {
    ink.fillStyle = faint;
    ink.fillText(time ? clock(mark, x1 - x0) : number(mark), Math.min(Math.max(px(mark), left + 6), width - right - 4), height - bottom / 2 + 2);
  }
  ink.save();
  ink.beginPath();
  ink.rect(left - 3, 0, width - left - right + 6, height - bottom + 3);
  ink.clip();
  let near = null;
  for (const [n, one] of lines.entries()) {
    const all = drawn[n];
    Object.assign(ink, { strokeStyle: one.colour, fillStyle: one.colour, lineWidth: one.chosen ? 2.5 : 1.6, lineJoin: "round" });
    ink.setLineDash(one.other ? [2, 3] : one.n >= COLOURS ? [6, 3] : []);
    ink.beginPath();
    all.forEach(([x, y], first) => (first ? ink.lineTo(px(x), py(y)) : ink.moveTo(px(x), py(y))));
    ink.stroke();
    for (const [x, y] of all) {
      ink.setLineDash([]);
      if (all.length <= 40) {
        ink.beginPath();
        ink.arc(px(x), py(y), 2.4, 0, 7);
        ink.fill();
      }
      if (hover) {
        const far = Math.hypot(px(x) - hover.x, py(y) - hover.y);
        if (far < 40 && (!near || far < near.far)) near = { far, one, x, y, px: px(x), py: py(y) };
      }
    }
  }
  if (near) {
    Object.assign(ink, { strokeStyle: css("--text"), lineWidth: 1.5 });
    ink.beginPath();
    ink.arc(near.px, near.py, 5, 0, 7);
    ink.stroke();
  }
  if (drag) dragged(ink, drag, top, height - bottom);
  ink.restore();
  return { near, at };
}
