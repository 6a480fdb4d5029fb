// The curves of a metric, of one run or two. A dragged range of x stays while the curves grow.

import { colour, drawLines } from "./draw.js";
import { changed, el } from "./card.js";
import { duration, language, number, w } from "./words.js";

const LINES = 12;
// Where the mouse is in an element and in the window.
export function spot(event, element) {
  const box = element.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top, left: event.clientX, top: event.clientY };
}

// Whether an instance has a curve.
export function curved(fold, one) {
  const attempt = fold.last(one);
  return attempt ? attempt.epochs.length > 0 : Boolean(one.from && one.result && Object.values(one.result.metrics).some((of) => of.n));
}

// The range of x that a place shows: dragged with the mouse, moved with the wheel, left with a double click or a button.
export class Range {
  constructor(place, reset, paint) {
    Object.assign(this, { reset, paint, zoom: null, drag: null, at: null });
    place.addEventListener("pointerdown", (event) => (this.drag = event.button ? null : [spot(event, place).x, spot(event, place).x]));
    place.addEventListener("pointermove", (event) => {
      if (!this.drag) return;
      this.drag[1] = spot(event, place).x;
      this.paint();
    });
    const release = ({ type }) => {
      const drag = this.drag;
      this.drag = null;
      this.dragged = Boolean(type === "pointerup" && drag && Math.abs(drag[1] - drag[0]) > 6 && this.at);
      if (this.dragged) this.show(drag.map(this.at).sort((a, b) => a - b));
      else if (drag) this.paint();
    };
    for (const event of ["pointerup", "pointercancel"]) addEventListener(event, release);
    place.addEventListener("wheel", (event) => {
      const by = event.deltaX || (event.shiftKey ? event.deltaY : 0);
      if (!this.zoom || !by) return;
      event.preventDefault();
      const step = (Math.sign(by) * (this.zoom[1] - this.zoom[0])) / 10;
      this.show(this.zoom.map((one) => one + step));
    });
    for (const [of, event] of [[place, "dblclick"], [reset, "click"]]) of.addEventListener(event, () => this.show(null));
  }

  // Shows this range; `null` is all of it.
  show(zoom) {
    this.zoom = zoom;
    this.reset.hidden = !zoom;
    this.paint();
  }
}

export class Curves {
  // `$` finds elements; `ask` fetches; `tip` shows lines at a place; `open` opens a card.
  constructor({ $, ask, tip, open }) {
    Object.assign(this, { $, ask, tip, open, drawn: [], hover: null });
    const place = $("curves");
    this.range = new Range(place, $("unzoom"), () => this.paint());
    place.addEventListener("pointermove", (event) => {
      this.hover = spot(event, place);
      this.paint();
    });
    place.addEventListener("pointerleave", () => {
      this.hover = null;
      this.paint();
    });
    $("axis").addEventListener("input", () => this.range.show(null));
  }

  // The points of a curve: its epochs, or the stored series of a reused result, which is fetched once.
  points(run, fold, one, metric, axis) {
    if (fold.last(one)) return fold.curve(one, metric).map(([n, t, y]) => [axis === "t" ? t : n, y]);
    if (!run.series.has(one.i)) {
      run.series.set(one.i, null);
      this.ask(`/api/series/${one.i}?run=${run.n}`, true).then((found) => {
        run.series.set(one.i, found);
        this.again();
      }, () => null);
    }
    const found = run.series.get(one.i);
    const times = new Map((found ? found.epoch_times : []).map(([part, epoch, , ended]) => [`${part} ${epoch}`, ended]));
    return ((found && found.metrics[metric]) || []).map(([part, epoch, , y]) => [axis === "t" ? times.get(`${part} ${epoch}`) : epoch, y])
      .filter(([x, y]) => typeof x === "number" && typeof y === "number");
  }

  // Draws these instances of `fold`, and their twins in another run.
  update({ run, fold, other, twin, all, picked, chosen }) {
    this.again = () => this.update({ run, fold, other, twin, all, picked, chosen });
    const { $ } = this;
    const [metric, axis] = [$("metric").value, $("axis").value];
    const line = (of, at, one, n, more) => ({ i: one.i, name: one.label, n, points: this.points(of, at, one, metric, axis), ...more });
    const wanted = all.filter((one) => !picked.size || picked.has(one.i)).slice(0, picked.size ? 40 : LINES);
    this.drawn = wanted.flatMap((one, n) => {
      const same = twin(one);
      const theirs = same && line(other, other.fold, same, n, { i: one.i, name: `${one.label} · ${other.tag}`, other: true });
      return [line(run, fold, one, n), theirs].filter((of) => of && of.points.length);
    });
    this.chosen = chosen;
    for (const id of ["metric", "axis", "curves", "curve-names"]) $(id).hidden = !this.drawn.length;
    $("log").parentElement.hidden = !this.drawn.length;
    $("no-curves").hidden = this.drawn.length > 0;
    this.paint();
    const rest = !picked.size && all.length > LINES ? el("em", {}, w("only-first", LINES)) : null;
    const key = this.drawn.map((of) => of.name).join() + language() + Boolean(rest) + chosen;
    if (!changed($("curve-names"), key)) return;
    const style = (of) => (of.other ? " dots" : of.n < 8 ? "" : " dash");
    $("curve-names").replaceChildren(...[...this.drawn.map((of) => el("button", { type: "button", class: `plain s${of.n % 8}${style(of)}`, onclick: () => this.open(of.i) }, el("i"), of.name)), rest].filter(Boolean));
  }

  paint() {
    const { $, hover, range: { zoom, drag } } = this;
    if (!this.drawn.length) return;
    const lines = this.drawn.map((of) => ({ ...of, colour: colour(of.n), chosen: of.i === this.chosen }));
    const { near, at } = drawLines($("curves"), { lines, x: $("axis").value, log: $("log").checked, height: 280, hover: drag ? null : hover, zoom, drag });
    this.range.at = at;
    if (hover) this.tip(near ? [near.one.name, `${$("metric").value} ${number(near.y)} · ${$("axis").value === "t" ? duration(near.x) : `epoch ${number(near.x)}`}`] : null, hover);
    else if (near === null) this.tip(null);
  }
}
