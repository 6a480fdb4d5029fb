// The page: asks for what is new, folds it, and shows it. Asks nothing while nobody looks.

import { Fold, OPEN, Run, STATES } from "./fold.js";
import { drawLanes } from "./draw.js";
import { Curves, Range, curved, spot } from "./curves.js";
import { Card, badge, broken, changed, el, place, reason } from "./card.js";
import { drawSteps } from "./steps.js";
import { bytes, day, done, duration, expected, language, moment, number, percent, quantity, said, speak, w } from "./words.js";

const $ = (id) => document.getElementById(id);
const EVERY = 1000;
const [FEW, ROWS] = [40, 1000];
const IDLE = ["skipped", "not_needed"];
const FIRST = [["running", "lost"], ["failed", "timed_out", "out_of_memory"], ["queued"], ["waiting"], STATES.filter((one) => !IDLE.includes(one)), IDLE];
const MEASURED = { load: percent, gpu_memory: bytes, cores: number, waited: percent, foreign_cpu: percent };
const MARKS = ["loaded", "waited", "others", "barrier", "out_of_memory", "failed", "ahead"];

// The run of the page, and one to compare with.
const own = new Run(0);
const live = own.fold;
let [other, shown] = [null, live];
// The moment shown, or null for the latest.
let until = null;
let lanes = null;
let [sort, few] = [{ by: null, down: false }, true];
const columns = new Map();
const picked = new Set();

// `null` if there is none.
async function ask(path, json) {
  const answer = await fetch(path);
  if (answer.status === 403) throw new Error("not-allowed");
  if (!answer.ok) return null;
  return json ? answer.json() : answer.text();
}

const card = new Card($("card"), (path, json) => ask(path, json).catch(() => null), () => show());
const pane = new Curves({ $, ask, tip, open });
const span = new Range($("lanes"), $("unzoom-lanes"), () => live.began && paintLanes(own.latest()));

async function update() {
  try {
    await own.update(ask);
    if (own.last.runs > 1) other = other || new Run(1);
    if (other && !other.last.ended) await other.update(ask);
    trouble = () => said(own.last.trouble || other?.last.trouble);
  } catch (error) {
    trouble = () => w(error.message === "not-allowed" ? "not-allowed" : "not-reached");
    own.last.failed = true;
  }
  if (other?.fold.start) {
    other.fold.now = other.latest();
    twins = new Map([...other.fold.instances.values()].map((one) => [one.label, one]));
  }
  show();
}

const isOver = () => own.last.ended && (!other || other.last.ended);
// The instance of the other run that has the same label.
let twins = new Map();
const twin = (one) => twins.get(one.label);

// At most one question at a time, and none while the page is hidden or the run is over.
let timer = null;
async function turn() {
  clearTimeout(timer);
  timer = null;
  if (document.hidden) return;
  await update();
  if (!isOver() && !document.hidden) timer = setTimeout(turn, own.last.failed ? 3 * EVERY : EVERY);
}
document.addEventListener("visibilitychange", () => document.hidden || (timer === null && !isOver() && turn()));

let progress = new Map();
let trouble = () => "";
// A pane that cannot be drawn does not keep others from it.
async function guarded(paint) {
  try {
    await paint();
  } catch (error) {
    text($("trouble"), w("not-drawn", error.message));
  }
}

function show() {
  text($("trouble"), trouble());
  if (!live.start) return;
  const end = own.latest();
  live.now = end;
  shown = until === null ? live : Fold.at(own.events, until);
  const running = (until === null && !own.over() && own.last.status?.running) || [];
  progress = new Map(running.filter((one) => live.attempts.get(one.attempt)?.ended === null).map((one) => [one.attempt, one]));
  for (const one of progress.values()) live.instances.get(one.instance).state = one.queued ? "queued" : "running";
  // What ran when the engine was killed.
  const lost = own.over() && !live.end ? [...live.attempts.values()].filter((attempt) => attempt.ended === null) : [];
  for (const attempt of lost) live.instances.get(attempt.i).state = "lost";
  if (own.over()) live.forecast.of = [];
  const counts = shown.counts();
  const paintCard = () => card.i !== null && card.show({ fold: shown, progress, live: until === null && own.last.logs });
  // First what asks for a width, because the others change the layout.
  [() => paintLanes(end), curves, () => head(end, counts), () => paintSteps(counts), table, paintAxes, paintReport, paintCard].forEach(guarded);
  document.body.dataset.ready = "yes";
}

function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

function head(end, counts) {
  const { start } = live;
  document.title = `${start.workflow} · flow`;
  text($("name"), start.workflow);
  const ended = live.end && ({ 0: "done", 130: "interrupted" }[live.end.exit] ?? "failed");
  const now = own.last.lives ? (live.interrupted ? "ending" : "running") : "gone";
  const kind = until !== null && until < end ? "past" : ended || now;
  text($("state"), w(`run-${kind}`, kind === "past" ? moment(until) : day(end)));
  $("state").className = `badge ${kind}`;
  const went = (shown.now - live.began) / 1000;
  const left = own.over() || until !== null ? null : own.last.left;
  const range = left?.range ? w("range", ...left.range.map(duration)) : duration(left?.seconds);
  const parts = [
    w("run", start.run), day(live.began),
    w(own.over() ? "took" : "for", duration(went)),
    left ? w(left.at_least ? "ends-or-more" : "ends", range) : "",
    own.last.host ? w("from", own.last.host) : "", ...start.about.map(said),
  ];
  text($("about"), parts.filter(Boolean).join(" · "));
  const theirs = other?.fold.start;
  $("versus").hidden = !theirs;
  if (theirs) {
    const labels = new Set([...live.instances.values()].map((one) => one.label));
    const alone = [...twins.keys()].filter((label) => !labels.has(label)).length;
    const more = [w("versus", theirs.workflow, theirs.run, own.tag, other.tag), day(other.fold.began), other.last.host ? w("from", other.last.host) : "", ...theirs.about.map(said)];
    text($("versus"), [...more, alone ? w("only-there", alone) : ""].filter(Boolean).join(" · "));
  }
  const total = (state) => [...counts.values()].reduce((sum, of) => sum + (of.get(state) || 0), 0);
  $("counts").replaceChildren(...STATES.filter(total).map((one) => {
    const chip = badge(one);
    chip.append(el("b", {}, String(total(one))));
    return chip;
  }));
  const [box, { notices }] = [$("notices"), shown];
  box.hidden = !notices.length;
  if (changed(box, `${notices.length}${language()}`)) {
    box.querySelector("summary").textContent = notices.length === 1 ? w("notice") : w("notices", notices.length);
    box.querySelector("ul").replaceChildren(...notices.slice(-200).map((notice) => {
      const one = shown.instances.get(notice.i);
      return el("li", {}, el("time", {}, moment(notice.t)), ` ${one ? `${one.label}: ` : ""}${said(notice.text)}`);
    }));
  }
}

function paintLanes(end) {
  const [moment_, ahead] = [until ?? end, shown.ahead()];
  // The forecast has at most three times as much room as the run so far.
  const ends = [...live.ahead().map((one) => one.to), ...[...progress.values()].map((one) => one.ends_at || 0)];
  const edge = Math.min(Math.max(end, ...ends), end + 3 * (end - live.began));
  const drawn = [...new Set([...live.attempts.values(), ...ahead].map((attempt) => live.instances.get(attempt.i)?.step))].filter(Boolean);
  const colours = new Map(drawn.map((step, n) => [step, n]));
  const of = (step) => colours.get(step) ?? 0;
  lanes = drawLanes($("lanes"), { fold: shown, whole: live, until: moment_, end, edge, zoom: span.zoom, drag: span.drag, progress, ahead: ahead.filter((one) => one.from < edge), colourOf: of, chosen: card.i });
  span.at = lanes.at;
  const names = drawn.slice(0, 12).map((step) => [`s${of(step) % 8}`, step]);
  const all = [...names, ...MARKS.filter((one) => lanes.marks.has(one)).map((one) => [`m-${one}`, w(`mark-${one}`)])];
  if (changed($("legend"), all.join())) $("legend").replaceChildren(...all.map(([kind, name]) => el("span", { class: kind }, el("i"), name)));
  const slider = $("slider");
  slider.style.marginLeft = `${lanes.left - 8}px`;
  slider.style.width = `calc((100% - ${lanes.left + lanes.right}px) * ${lanes.share} + 16px)`;
  slider.value = until === null ? slider.max : ((until - live.began) / (end - live.began)) * slider.max;
  slider.setAttribute("aria-valuetext", moment(moment_));
  text($("moment"), `${moment(moment_)} · ${duration((moment_ - live.began) / 1000)}`);
  $("follow").disabled = until === null;
}

// The metrics of these instances, the telling ones first.
const has = (one, name) => (one.result && name in one.result.metrics) || name in (shown.last(one)?.epochs.at(-1)?.metrics || {});
const metricsOf = (all) => own.last.metrics.filter((name) => all.some((one) => has(one, name)));

function selected() {
  const [step, words] = [$("step").value, $("filter").value.toLowerCase().split(/\s+/).filter(Boolean)];
  const fits = (one) => (!step || one.step === step) && words.every((word) => `${one.label} ${w(one.state)} ${one.state}`.toLowerCase().includes(word));
  return [...shown.instances.values()].filter(fits);
}

// Columns: a title, a value to sort and to copy, and a cell.
function described(all) {
  const metrics = metricsOf(all);
  const most = other ? 2 : innerWidth < 560 ? 1 : 4;
  const list = [
    { id: "state", title: w("state"), by: (one) => STATES.indexOf(one.state), cell: (one) => badge(one.state), csv: (one) => one.state },
    { id: "instance", title: w("instance"), by: (one) => one.label, cell: (one) => el("button", { type: "button", class: "link", onclick: () => open(one.i) }, broken(one.label)) },
    { id: "time", title: w("time"), number: true, by: (one, fold = shown) => fold.seconds(one), cell: (one, fold = shown) => time(one, fold) },
  ];
  metrics.forEach((name, n) => {
    // Two runs are compared by their last values, as in `flow diff`.
    const value = (one, fold = shown) => fold.value(one, name, other ? {} : own.last.goals);
    const title = all.some((one) => value(one)?.best) ? w("best", name) : name;
    const cell = (of) => (of ? el("span", { title: of.best ? w("best", name) : of.n ? w("mean", of.n) : null }, quantity(of.v, of.unit)) : "");
    list.push({
      id: `m.${name}`, title, number: true, optional: true, on: n < most, down: own.last.goals[name] === "max", by: (one, fold) => value(one, fold)?.v,
      isShare: (one) => value(one)?.unit === "ratio", cell: (one, fold) => cell(value(one, fold)),
    });
  });
  const measured = (id) => all.some((one) => one.result && one.result[id] !== null);
  for (const [id, shape] of Object.entries(MEASURED).filter(([id]) => measured(id))) {
    list.push({ id, title: w(id), number: true, optional: true, on: ["load", "gpu_memory"].includes(id) && innerWidth >= 560 && !other, by: (one) => one.result?.[id], cell: (one) => (one.result && one.result[id] !== null ? shape(one.result[id]) : "") });
  }
  if (other) list.splice(2, list.length - 2, ...list.slice(2).flatMap(both));
  list.push({ id: "reason", title: w("reason"), by: (one) => reason(one, shown.waits), cell: (one) => reason(one, shown.waits) });
  return list;
}

// A column of the first run, of the second one, and the change from the first to the second.
function both(column) {
  const theirs = (one) => (twin(one) ? column.by(twin(one), other.fold) : null);
  const is = (v) => typeof v === "number" && Number.isFinite(v);
  // Values of an instance that has not ended are not compared.
  const over = (one) => one && ![...OPEN, "lost"].includes(one.state);
  const change = (one) => (over(one) && over(twin(one)) && is(column.by(one)) && is(theirs(one)) && column.by(one) !== 0 ? (theirs(one) - column.by(one)) / Math.abs(column.by(one)) : null);
  const sized = (one) => (column.isShare?.(one) ? [theirs(one) - column.by(one), " pp"] : [change(one), "%"]);
  const percents = (one) => (change(one) === null ? "" : `${change(one) < 0 ? "−" : "+"}${Math.abs(100 * sized(one)[0]).toFixed(1)}${sized(one)[1]}`);
  const more = { number: true, optional: column.optional, on: column.on, down: column.down };
  const title = w("change", other.tag);
  return [
    column,
    { ...more, id: `${column.id}.other`, title: `${column.title} · ${other.tag}`, by: theirs, cell: (one) => (twin(one) ? column.cell(twin(one), other.fold) : "") },
    { ...more, id: `${column.id}.change`, title, csvTitle: `${column.title}: ${title}`, by: change, cell: percents },
  ];
}

function time(one, fold) {
  if (fold !== shown) return duration(fold.seconds(one));
  const attempt = shown.last(one);
  const now = attempt && attempt.ended === null ? progress.get(attempt.a) : null;
  const [seconds, part] = [duration(shown.seconds(one)), now && done(now, shown.now)];
  return part ? el("span", {}, el("meter", { value: part, "aria-label": percent(part) }), ` ${seconds}`) : seconds;
}

function sorted(all, list) {
  const column = list.find((one) => one.id === sort.by);
  // What runs and what failed first, otherwise as in the workflow.
  const rank = ({ state }) => FIRST.findIndex((states) => states.includes(state));
  if (!column) return all.sort((a, b) => rank(a) - rank(b) || a.i - b.i);
  const none = (v) => v === null || v === undefined || v === "" || Number.isNaN(v);
  return all.map((one) => [column.by(one), one]).sort(([a, x], [b, y]) => {
    // What has no value comes last in either order.
    if (none(a) || none(b)) return none(a) - none(b) || x.i - y.i;
    return (a < b ? -1 : a > b ? 1 : 0) * (sort.down ? -1 : 1) || x.i - y.i;
  }).map(([, one]) => one);
}

const isOn = (column) => !column.optional || (columns.get(column.id) ?? column.on);
let painted = "";

function table() {
  choices($("step"), ["", ...own.steps.map((one) => one.step)], (step) => step || w("all-steps"));
  const all = selected();
  const list = described(all);
  const rows = sorted(all, list);
  // What did not have to run is shown on demand, and a few more rows are not worth a button.
  const busy = rows.filter((one) => !IDLE.includes(one.state)).length;
  const first = Math.min(FEW, sort.by ? FEW : Math.max(5, busy));
  const most = few && rows.length > first + 5 ? first : ROWS;
  const visible = list.filter(isOn);
  const key = JSON.stringify([language(), sort, most, visible.map((one) => one.id), rows.length, innerWidth < 560, card.i, [...picked],
    rows.slice(0, most).map((one) => [one.i, one.state, one.attempts.length, Boolean(one.result), reason(one, shown.waits), ...(OPEN.includes(one.state) ? [Math.floor((shown.seconds(one) || 0)), shown.last(one)?.epochs.length] : [])]),
    ...(other ? rows.slice(0, most).map(twin).map((one) => one && [one.state, Boolean(one.result), Math.floor(other.fold.seconds(one) || 0), other.fold.last(one)?.epochs.length]) : [])]);
  if (key === painted || $("table").contains(document.activeElement) && document.activeElement.tagName === "SELECT") return;
  painted = key;
  const header = visible.map((column) => {
    const on = sort.by === column.id;
    const button = el("button", { type: "button", class: "plain", onclick: () => {
      sort = { by: column.id, down: on ? !sort.down : Boolean(column.down) };
      table();
    } }, column.title, on ? (sort.down ? " ↓" : " ↑") : "");
    return el("th", { scope: "col", class: column.number ? "number" : `c-${column.id}`, "aria-sort": on ? (sort.down ? "descending" : "ascending") : null }, button);
  });
  const focus = document.activeElement?.closest?.("#table tr")?.dataset?.i;
  const cells = (one) => visible.map((column) => el("td", { class: column.number ? "number" : `c-${column.id}` }, column.cell(one)));
  const pick = (one) => checkbox({ "aria-label": `${w("choose")}: ${one.label}`, title: w("choose") }, picked.has(one.i), (on) => {
    picked[on ? "add" : "delete"](one.i);
    curves();
  });
  const tick = (one) => el("td", { class: "tick" }, curved(shown, one) ? pick(one) : "");
  $("table").tHead.replaceChildren(el("tr", {}, el("th", { class: "tick" }), ...header));
  $("table").tBodies[0].replaceChildren(...rows.slice(0, most).map((one) => el("tr", { "data-i": one.i, class: one.i === card.i ? "chosen" : null }, tick(one), ...cells(one))));
  if (focus) $("table").querySelector(`tr[data-i="${Number(focus)}"] .link`)?.focus({ preventScroll: true });
  const rest = rows.length - most;
  $("more").hidden = rows.length > 0 && rest <= 0;
  $("more").replaceChildren(!rows.length ? w("nothing") : most === ROWS ? w("more", rest) : el("button", { type: "button", onclick: () => {
    few = false;
    table();
  } }, w("show-all", rows.length)));
  const optional = list.filter((one) => one.optional);
  const menu = $("columns").querySelector("div");
  $("columns").hidden = !optional.length;
  if (!changed(menu, optional.map((one) => one.id + isOn(one)).join() + language())) return;
  menu.replaceChildren(...optional.map((column) => el("label", { class: "check" }, checkbox({}, isOn(column), (on) => {
    columns.set(column.id, on);
    table();
  }), column.title)));
}

function checkbox(attributes, on, change) {
  const box = el("input", { type: "checkbox", onchange: () => change(box.checked), ...attributes });
  box.checked = on;
  return box;
}

// Sets the choices of a list and keeps the chosen one.
function choices(select, values, name = (one) => one) {
  if (!changed(select, values.join("\n") + language())) return;
  const { value } = select;
  select.replaceChildren(...values.map((one) => el("option", { value: one }, name(one))));
  select.value = values.includes(value) ? value : (values[0] ?? "");
}

function curves() {
  const step = $("step").value;
  const all = [...shown.instances.values()].filter((one) => (!step || one.step === step) && curved(shown, one));
  choices($("metric"), metricsOf(all).filter((name) => all.some((one) => !shown.last(one) || shown.curve(one, name).length)));
  pane.update({ run: own, fold: shown, other, twin, all, picked, chosen: card.i });
}

function paintSteps(counts) {
  const all = own.steps;
  $("steps-pane").hidden = all.length < 2;
  const pick = (step) => {
    $("step").value = $("step").value === step ? "" : step;
    show();
  };
  if (all.length > 1) drawSteps($("steps"), { steps: all, counts, selected: $("step").value, pick });
}

let [axesKey, axesStep] = ["", ""];

// The selected step over its axes, or the one with most results. The server draws it from the results.
async function paintAxes() {
  const of = new Map();
  const placed = [...shown.instances.values()].filter((one) => one.result && Object.keys(one.result.axes).length);
  for (const one of placed) (of.get(one.step) || of.set(one.step, []).get(one.step)).push(one);
  const rows = of.get($("step").value) || [...of.values()].reduce((a, b) => (b.length > a.length ? b : a), []);
  const at = (id, or) => ($(id).selectedIndex < 0 || axesStep !== rows[0]?.step ? or : $(id).selectedIndex);
  const chosen = [at("axes-value", 0), at("axes-x", 0), at("axes-y", 1)];
  const query = new URLSearchParams({ form: $("axes-form").value, value: chosen[0], x: chosen[1], y: chosen[2], width: lanes.width, lang: language() });
  if (until !== null) query.set("until", Math.round(until));
  const key = `${rows[0]?.i} ${rows.length} ${query}`;
  if (key === axesKey) return;
  axesKey = key;
  const found = rows.length > 1 ? await ask(`/api/axes/${rows[0].i}?${query}`, true).catch(() => null) : null;
  if (axesKey !== key) return;
  $("axes-pane").hidden = !found;
  // A question that failed is asked again.
  if (!found) return void (axesKey = rows.length > 1 ? "" : key);
  text($("axes-step"), found.step);
  axesStep = found.step;
  const heat = $("axes-form").value === "heat";
  for (const [id, names, n] of [["axes-value", found.values, chosen[0]], ["axes-x", found.axes, chosen[1]], ["axes-y", found.axes, chosen[2]]]) {
    choices($(id), names);
    $(id).selectedIndex = Math.min(n, names.length - 1);
    $(id).hidden = id !== "axes-value" && (!heat || names.length < 3);
  }
  // Parsed as a picture: no text in it acts.
  $("axes").replaceChildren(document.importNode(new DOMParser().parseFromString(found.svg, "image/svg+xml").documentElement, true));
}

// The report that the run made, as a page that runs nothing.
function paintReport() {
  const made = new Set(own.steps.filter((step) => step.report).map((step) => step.step));
  const all = [...shown.instances.values()].filter((one) => made.has(one.step) && one.result?.folder);
  $("report-pane").hidden = !all.length;
  choices($("report"), all.map((one) => String(one.i)), (i) => live.instances.get(Number(i)).label);
  $("report").hidden = all.length < 2;
  const one = live.instances.get(Number($("report").value));
  const source = all.length ? `/api/report/${one.i}?lang=${language()}&of=${one.attempts.length}` : "";
  if (source && $("report-page").getAttribute("src") !== source) $("report-page").setAttribute("src", source);
}

function tip(lines, at) {
  const box = Object.assign($("tip"), { hidden: !lines });
  if (!lines) return;
  box.replaceChildren(...lines.filter(Boolean).map((line) => el("div", {}, line)));
  box.style.left = `${Math.max(4, Math.min(at.left + 14, innerWidth - box.offsetWidth - 8))}px`;
  box.style.top = `${at.top + 18 + box.offsetHeight > innerHeight ? at.top - box.offsetHeight - 8 : at.top + 18}px`;
}

const hit = (at) => lanes && lanes.hits.findLast((one) => at.x >= one.x && at.x <= one.x + one.w && at.y >= one.y && at.y <= one.y + one.h);

$("lanes").addEventListener("mousemove", (event) => {
  const at = spot(event, $("lanes"));
  const found = hit(at);
  $("lanes").style.cursor = found ? "pointer" : "";
  const one = found && shown.instances.get(found.i);
  if (!one) return tip(null);
  const { attempt } = found;
  if (found.ahead) return tip([one.label, expected(attempt), reason(one, shown.waits)], at);
  const took = duration(((attempt.ended ?? shown.now) - attempt.began) / 1000);
  const what = [found.ghost ? w("later") : w(attempt.outcome || one.state), took, place(attempt, live.start)];
  const result = !found.ghost && one.attempts.at(-1) === attempt.a && one.result;
  const used = result ? Object.keys(MEASURED).filter((id) => result[id] !== null).map((id) => `${w(id)} ${MEASURED[id](result[id])}`) : [];
  const ends = progress.get(attempt.a)?.ends_at;
  tip([one.label, what.join(" · "), used.join(" · "), ends ? expected({ from: attempt.began, to: ends }) : "", found.ghost ? "" : reason(one, shown.waits)], at);
});
$("lanes").addEventListener("mouseleave", () => tip(null));
$("lanes").addEventListener("click", (event) => span.dragged || open(hit(spot(event, $("lanes")))?.i));
$("axes").addEventListener("click", (event) => open(event.target.closest("[data-i]")?.dataset.i));

function open(i) {
  if (i === undefined) return;
  card.open(Number(i));
  show();
}

function at(moment) {
  until = moment;
  show();
}

$("slider").addEventListener("input", ({ target: { value, max } }) => at(value === max ? null : live.began + ((own.latest() - live.began) * value) / max));
$("follow").addEventListener("click", () => at(null));
for (const [ids, paint] of [["filter", table], ["step", show], ["metric axis log", curves], ["axes-value axes-form axes-x axes-y", paintAxes], ["report", paintReport]]) {
  for (const id of ids.split(" ")) $(id).addEventListener("input", () => paint());
}
document.addEventListener("click", (event) => $("columns").contains(event.target) || ($("columns").open = false));

$("copy").addEventListener("click", async () => {
  const all = selected();
  const list = described(all).filter(isOn);
  const cell = (value) => {
    let said_ = value === null || value === undefined ? "" : String(value);
    // A spreadsheet would run such a text as a formula.
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(said_)) said_ = `'${said_}`;
    return /[",\n\r]/.test(said_) ? `"${said_.replaceAll('"', '""')}"` : said_;
  };
  const lines = [list.map((column) => cell(column.csvTitle || column.title)), ...sorted(all, list).map((one) => list.map((column) => cell((column.csv || column.by)(one))))];
  const done = await navigator.clipboard.writeText(lines.map((line) => line.join(",")).join("\n")).then(() => "copied", () => "copy-failed");
  text($("copy"), w(done));
  setTimeout(() => text($("copy"), w("copy-csv")), 1500);
});

function words() {
  for (const element of document.querySelectorAll("[data-w]")) element.textContent = w(element.dataset.w);
  for (const element of document.querySelectorAll("[data-label]")) element.setAttribute("aria-label", w(element.dataset.label));
  for (const element of document.querySelectorAll("[data-hint]")) element.placeholder = w(element.dataset.hint);
  Object.assign($("lang"), language() === "en" ? { textContent: "中文", lang: "zh" } : { textContent: "English", lang: "en" });
}
$("lang").addEventListener("click", () => {
  speak(language() === "en" ? "zh" : "en");
  words();
  painted = "";
  show();
});

// The token leaves the address bar.
if (location.search) history.replaceState(null, "", `/${location.hash}`);

// A link to a moment, in seconds since the start: #at=15&card=3&lang=zh&step=train&form=parallel&zoom=2-8&lanes=10-20.
const link = new URLSearchParams(location.hash.slice(1));
speak(link.get("lang") || document.documentElement.lang);
words();
addEventListener("resize", () => {
  show();
  card.redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => show());
turn().then(() => {
  if (link.has("at")) until = Math.min(own.latest(), live.began + 1000 * (Number(link.get("at")) || 0));
  if (link.has("step")) $("step").value = link.get("step");
  if (link.has("form")) $("axes-form").value = link.get("form");
  if (link.has("zoom")) pane.range.show(link.get("zoom").split("-").map(Number));
  if (link.has("lanes")) span.show(link.get("lanes").split("-").map((seconds) => live.began + 1000 * Number(seconds)));
  if (link.has("card")) card.open(Number(link.get("card")));
  show();
});
