// The card of one instance: state, result, circumstances, what was measured, and the end of its log.

import { day, duration, expected, moment, number, percent, quantity, said, w } from "./words.js";
import { colour, drawLines } from "./draw.js";

// An element with text or children. Text of a step only ever becomes text.
export function el(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

// Whether an element shows something else now.
export function changed(element, key) {
  const is = element.dataset.key !== key;
  element.dataset.key = key;
  return is;
}

// A label that breaks after its commas.
export const broken = (label) => label.split(/(?<=,)/).flatMap((part) => [part, el("wbr")]).slice(0, -1);

export const badge = (state) => el("span", { class: `state ${state}` }, el("i"), w(state));

// Where an attempt runs: `GPU 0, 8 CPUs`.
export function place(attempt, start) {
  const index = new Map((start ? start.gpus : []).map((gpu) => [gpu.uuid, gpu.index]));
  const gpus = attempt.gpus.map((gpu) => index.get(gpu) ?? gpu);
  const cpus = attempt.cpus === 1 ? w("cpu-1") : w("cpus-n", attempt.cpus);
  const requested = attempt.requested ? [`${attempt.requested} GPU`] : [];
  return [...(gpus.length ? [w("gpu", gpus.join(", "))] : requested), cpus].join(", ");
}

// Why an instance is as it is: why it waits, ended so, or ran.
export function reason(one, waits) {
  if (one.state === "waiting" || one.state === "queued") {
    if (waits.has(one.label)) return said(waits.get(one.label));
    if (one.cause) return said(one.cause);
    return one.after ? w("after-steps", one.after.join(", ")) : w("turn");
  }
  if (one.cause) return said(one.cause);
  if (one.from) return w("cached_from", one.from);
  return said(one.why);
}

const facts = (rows) => {
  const shown = rows.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return shown.length ? el("dl", {}, shown.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])) : null;
};
const section = (title, ...children) => {
  const all = children.flat(Infinity).filter(Boolean);
  return all.length ? el("section", {}, el("h3", {}, title), all) : null;
};

export class Card {
  constructor(element, ask, closed) {
    [this.element, this.ask, this.closed] = [element, ask, closed];
    this.i = null;
    addEventListener("keydown", (event) => event.key === "Escape" && this.close());
  }

  open(i) {
    this.i = i;
    this.result = this.series = this.log = this.fetched = undefined;
    this.element.hidden = false;
    this.element.scrollTop = 0;
    this.shown = "";
  }

  close() {
    if (this.i === null) return;
    this.i = null;
    this.element.hidden = true;
    this.closed();
  }

  // Fetches what changed and shows it. `live` is false for an earlier moment, whose log is not known.
  async show({ fold, progress, live }) {
    const one = fold.instances.get(this.i);
    if (!one) return this.close();
    const i = this.i;
    const attempt = fold.last(one);
    if (one.result && this.fetched !== `${i} ${one.attempts.length} ${one.state}`) {
      this.fetched = `${i} ${one.attempts.length} ${one.state}`;
      this.result = await this.ask(`/api/result/${i}`, true);
      if (this.result && this.result.has_series) this.series = await this.ask(`/api/series/${i}`, true);
    }
    if (attempt && live && (attempt.ended === null || this.log === undefined)) this.log = (await this.ask(`/api/log/${attempt.a}`, false)) ?? null;
    if (this.i !== i) return;
    const now = progress.get(attempt ? attempt.a : -1);
    this.ahead = fold.ahead().find((of) => of.i === i);
    const key = JSON.stringify([i, document.documentElement.lang, one, this.ahead, attempt, now, this.log, live, fold.waits.get(one.label), Boolean(this.result), Boolean(this.series)]) + (attempt && attempt.ended === null ? Math.floor(fold.now / 1000) : "");
    if (key === this.shown) return;
    this.shown = key;
    this.draw(fold, one, attempt, now, live);
  }

  draw(fold, one, attempt, now, live) {
    const log = this.element.querySelector("pre");
    const below = !log || log.scrollTop + log.clientHeight > log.scrollHeight - 20;
    const at = log ? log.scrollTop : 0;
    const top = this.element.scrollTop;
    const result = one.result && this.result ? this.result : null;
    const measured = one.result ? Object.entries(one.result.metrics) : [];
    const close = el("button", { type: "button", class: "plain close", "aria-label": w("close"), onclick: () => this.close() }, "✕");
    const head = [
      el("div", { class: "card-head" }, el("h2", { id: "card-title" }, broken(one.label)), close),
      el("p", {}, badge(one.state), now?.fraction ? ` ${percent(now.fraction)}` : "", now?.text ? ` ${now.text}` : ""),
      el("p", { class: "because" }, reason(one, fold.waits)),
      ...one.disturbances.map((pair) => el("p", { class: "trouble" }, `${w("disturbed")}: ${said(pair)}`)),
      ...(result ? result.caveats.map((pair) => el("p", { class: "faint" }, `${w("caveat")}: ${said(pair)}`)) : []),
    ];
    const timing = facts([
      [w("began"), attempt ? `${moment(attempt.began)}` : result ? day(result.started_at) : ""],
      [w("forecast"), this.ahead ? expected(this.ahead) : now?.ends_at ? expected({ from: attempt.began, to: now.ends_at }) : ""],
      [w("time"), duration(fold.seconds(one))],
      [w("place"), attempt ? place(attempt, fold.start) : ""],
      [w("slurm-job"), now && now.job ? `${now.job}, ${now.node}` : ""],
      [w("attempts"), one.attempts.length > 1 ? String(one.attempts.length) : ""],
      [w("reason"), attempt && one.cause ? said(one.why) : ""],
    ]);
    const metric = ([name, of]) => {
      const more = [of.sd ? `± ${number(of.sd)}` : "", of.n ? w("mean", of.n) : ""].filter(Boolean).join(", ");
      return [name, el("span", {}, quantity(of.v, of.unit), more ? el("small", {}, more) : "")];
    };
    const charts = result ? this.charts() : [];
    const tail = attempt && live && this.log !== "" ? [this.log ? el("pre", { tabindex: "0" }, this.log) : el("p", { class: "faint" }, w("no-log"))] : [];
    const body = [
      ...head, timing,
      section(w("metrics"), facts(measured.map(metric))),
      section(w("over-time"), charts.map((chart) => chart.element)),
      section(w("log"), tail),
      ...(result ? result.sections.map((of) => section(said(of.title), facts(of.facts.map((pair) => pair.map(said))))) : []),
      result ? el("p", { class: "faint" }, w("made-by", result.run)) : null,
    ];
    this.element.replaceChildren(...body.filter(Boolean));
    this.charts_now = charts;
    charts.forEach((chart) => chart.draw());
    this.element.scrollTop = top;
    const pre = this.element.querySelector("pre");
    if (pre) pre.scrollTop = below ? pre.scrollHeight : at;
  }

  redraw() {
    (this.charts_now || []).forEach((chart) => chart.draw());
  }

  // Loads over time.
  charts() {
    return (this.series ? this.series.charts : []).map(({ title, lines }) => {
      const legend = lines.length > 1 ? el("div", { class: "legend" }, lines.map((line, n) => el("span", { class: `s${n}` }, el("i"), said(line.name)))) : null;
      const place = el("div", { class: "canvas" }, el("canvas", { role: "img", "aria-label": said(title) }));
      return {
        element: el("figure", {}, el("figcaption", {}, said(title)), place, legend),
        draw: () => drawLines(place, { lines: lines.map((line, n) => ({ ...line, colour: colour(n) })), x: "t", height: 104 }),
      };
    });
  }
}
