// The page's words in English and Chinese, and how numbers, times and reasons read.

import WORDS from "./catalogue.js";

let at = 0;
export const language = () => (at ? "zh" : "en");
export function speak(lang) {
  at = lang === "zh" ? 1 : 0;
  document.documentElement.lang = language();
}

export function w(key, ...values) {
  const pair = WORDS[key];
  return pair ? pair[at].replace(/\{(\d)\}/g, (_, n) => String(values[n] ?? "")) : key.replaceAll("_", " ");
}

export const said = (pair) => (pair ? pair[at] : ""); // a text that the server has in both languages

export function duration(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "";
  const s = Math.max(0, seconds);
  if (s < 0.1) return `${Math.round(s * 1000)} ms`;
  if (s < 10) return `${s.toFixed(s < 1 ? 2 : 1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const [h, m, rest] = [Math.floor(s / 3600), Math.floor(s / 60) % 60, Math.floor(s) % 60];
  return h ? `${h} h ${m} min` : `${m} min ${rest} s`;
}

// 1:05, for axes; 2.5 s on one of a few seconds.
export function clock(seconds, span) {
  if (span < 10) return `${seconds.toFixed(1)} s`;
  const s = Math.max(0, Math.round(seconds));
  const two = (n) => String(n).padStart(2, "0");
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

export const moment = (ms) => new Date(ms).toLocaleTimeString(language() === "zh" ? "zh-CN" : "en-GB");
export const day = (ms) => new Date(ms).toLocaleString(language() === "zh" ? "zh-CN" : "en-GB", { dateStyle: "medium", timeStyle: "short" });
// The share of a running attempt that is done: as its program reports, else by its expected end.
export const done = ({ fraction, started_at, ends_at }, now) => fraction ?? (ends_at ? Math.min(0.99, (now - started_at) / Math.max(1, ends_at - started_at)) : 0);
// When the scheduler expects an instance to run, and for how long.
export const expected = ({ from, to }) => w("expected", moment(from), moment(to), duration((to - from) / 1000));

export function bytes(n) {
  if (n === null || n === undefined) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < 4) [n, at] = [n / 1024, at + 1];
  return `${at && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[at]}`;
}

export const percent = (share) => (share === null || share === undefined ? "" : `${(share * 100).toFixed(share < 0.0995 && share > 0 ? 1 : 0)}%`);

// Four significant digits, never cut in the middle.
export function number(v) {
  if (typeof v !== "number") return v === null || v === undefined ? "NaN" : String(v);
  const size = Math.abs(v);
  if (Number.isInteger(v) && size < 1e10) return v.toLocaleString("en-US");
  if (size >= 1e10 || (size < 1e-3 && size > 0)) return v.toExponential(2);
  if (size >= 1000) return Math.round(v).toLocaleString("en-US");
  return v.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4);
}

export function quantity(v, unit) {
  if (typeof v !== "number") return number(v);
  if (unit === "bytes") return bytes(v);
  if (unit === "ratio") return `${(v * 100).toFixed(1)}%`;
  return unit ? `${number(v)} ${unit}` : number(v);
}
