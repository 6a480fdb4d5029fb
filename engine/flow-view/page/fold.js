// The state of a run at a moment: a fold over its events. Live and replay use this one.

export class Fold {
  constructor() {
    this.start = null;
    this.began = 0;
    this.now = 0;
    this.end = null;
    this.interrupted = false;
    this.instances = new Map();
    this.attempts = new Map();
    this.notices = [];
    this.published = [];
  }

  // All events until a moment.
  static at(events, until) {
    const fold = new Fold();
    for (const event of events) {
      if (event.t > until) break;
      fold.apply(event);
    }
    fold.now = until;
    return fold;
  }

  apply(e) {
    this.now = Math.max(this.now, e.t);
    const one = this.instances.get(e.i);
    const attempt = this.attempts.get(e.a);
    switch (e.e) {
      case "start":
        this.start = e;
        this.began = e.t;
        break;
      case "instance":
        if (!one) {
          this.instances.set(e.i, {
            i: e.i, label: e.label, step: e.step, state: "waiting", why: e.why || null, after: e.after || null,
            cause: e.cause || null, attempts: [], result: null, from: null, spoiled: [],
          });
        }
        break;
      case "cached":
        if (one) Object.assign(one, { state: e.outcome === "ok" ? "cached" : e.outcome, from: e.from, result: e.result });
        break;
      case "started":
        this.attempts.set(e.a, {
          a: e.a, i: e.i, gpus: e.gpus, asked: e.asked, cpus: e.cpus, began: e.t, ended: null, outcome: null,
          queued: e.queued, ready: null, released: null, epochs: [],
        });
        if (one) {
          Object.assign(one, { state: e.queued ? "queued" : "running", why: e.why, cause: null, spoiled: [] });
          one.attempts.push(e.a);
        }
        break;
      case "ready":
        if (attempt) attempt.ready = e.t;
        break;
      case "released":
        for (const id of e.attempts) {
          const member = this.attempts.get(id);
          if (member) member.released = e.t;
        }
        break;
      case "epoch":
        if (attempt) attempt.epochs.push({ n: e.n, t: e.t, metrics: e.metrics });
        break;
      case "ended":
        if (attempt) Object.assign(attempt, { ended: e.t, outcome: e.outcome });
        if (one) {
          Object.assign(one, { cause: e.cause, spoiled: e.spoiled });
          // Perhaps for the next attempt; otherwise it is settled at once.
          one.state = e.outcome === "failed" ? "waiting" : e.outcome;
        }
        break;
      case "again":
        if (one) one.state = "waiting";
        break;
      case "recorded":
        if (one) {
          one.result = e.result;
          one.state = e.again && e.result.outcome === "ok" ? "cached" : e.result.outcome;
          if (e.result.cause) one.cause = e.result.cause;
        }
        break;
      case "settled":
        if (one) Object.assign(one, { state: e.unneeded ? "not_needed" : e.outcome, cause: e.cause });
        break;
      case "interrupted":
        this.interrupted = true;
        break;
      case "notice":
        this.notices.push({ t: e.t, i: e.i, text: e.text });
        break;
      case "published":
        this.published.push(e);
        break;
      case "end":
        this.end = e;
        break;
    }
  }

  counts() {
    const counts = new Map();
    for (const one of this.instances.values()) counts.set(one.state, (counts.get(one.state) || 0) + 1);
    return counts;
  }

  running() {
    return [...this.attempts.values()].filter((attempt) => attempt.ended === null);
  }

  last(one) {
    return this.attempts.get(one.attempts[one.attempts.length - 1]) || null;
  }

  // Seconds of the last attempt, or of the reused result.
  seconds(one) {
    const attempt = this.last(one);
    if (attempt) return ((attempt.ended ?? this.now) - attempt.began) / 1000;
    return one.result ? one.result.wall : null;
  }

  // Values of a metric in the last attempt: [[epoch, time, value]].
  curve(one, metric) {
    const attempt = this.last(one);
    if (!attempt) return [];
    const points = [];
    for (const epoch of attempt.epochs) {
      const value = epoch.metrics[metric];
      if (typeof value === "number") points.push([epoch.n, (epoch.t - attempt.began) / 1000, value]);
    }
    return points;
  }

  // The value for the table: the best epoch if a name says what is best, unless the result is a mean over epochs.
  value(one, metric, goals) {
    const measured = one.result && one.result.metrics[metric];
    const goal = goals[metric];
    if (!(measured && measured.n) && goal) {
      const values = this.curve(one, metric).map((point) => point[2]);
      if (!values.length && measured && "best" in measured) return { ...measured, v: measured.best, best: true };
      if (values.length) return { v: values.reduce((a, b) => (goal === "min" ? Math.min(a, b) : Math.max(a, b))), best: true, unit: measured ? measured.unit : "" };
    }
    if (measured) return measured;
    const points = this.curve(one, metric);
    return points.length ? { v: points[points.length - 1][2], unit: "" } : null;
  }

  // Seconds until the end, as `flow run` estimates them, and whether it can only be longer.
  remaining(progress) {
    const steps = new Map();
    const of = (step) => steps.get(step) || steps.set(step, { ended: 0, took: 0, waiting: 0 }).get(step);
    const running = [];
    for (const attempt of this.attempts.values()) {
      const one = this.instances.get(attempt.i);
      if (!one) continue;
      if (attempt.ended === null) running.push([attempt, one]);
      else {
        of(one.step).ended += 1;
        of(one.step).took += (attempt.ended - attempt.began) / 1000;
      }
    }
    for (const one of this.instances.values()) if (one.state === "waiting") of(one.step).waiting += 1;
    const mean = (step) => (of(step).ended ? of(step).took / of(step).ended : null);
    let [longest, sum, atLeast] = [0, 0, false];
    for (const [attempt, one] of running) {
      const soFar = Math.max(0, this.now - attempt.began) / 1000;
      const fraction = progress.get(attempt.a)?.fraction;
      let left;
      if (fraction >= 0.05) left = (soFar * (1 - Math.min(1, fraction))) / fraction;
      else if (mean(one.step) !== null) left = Math.max(0, mean(one.step) - soFar);
      else {
        atLeast = true;
        continue;
      }
      longest = Math.max(longest, left);
      sum += left;
    }
    for (const [step, { waiting }] of steps) {
      if (!waiting) continue;
      if (mean(step) === null) atLeast = true;
      else sum += mean(step) * waiting;
    }
    const left = Math.max(longest, sum / Math.max(1, running.length));
    return left > 0 ? { left, atLeast } : null;
  }
}

export const OPEN = ["running", "queued", "waiting"];
export const STATES = ["running", "lost", "queued", "waiting", "ok", "cached", "failed", "out_of_memory", "timed_out", "does_not_fit", "cancelled", "skipped", "not_needed"];
