// The state of a run at a moment: a fold over its events. Live and replay use this one.

// A run as far as it is known.
export class Run {
  constructor(n) {
    const last = { lives: true, ended: false, goals: {}, metrics: [], host: null, status: null };
    Object.assign(this, { n, events: [], fold: new Fold(), steps: [], series: new Map(), ahead: 0, last });
  }

  // Asks for what is new.
  async update(ask) {
    let answer;
    do {
      answer = await ask(`/api/updates?from=${this.events.length}&run=${this.n}`, true);
      // Clocks of the server and this machine may differ.
      this.ahead = answer.now - Date.now();
      for (const event of answer.events) {
        this.events.push(event);
        this.fold.apply(event);
      }
      this.steps = answer.steps || this.steps;
    } while (answer.next < answer.all);
    this.last = answer;
    this.tag = this.fold.start?.run.slice(-4);
  }

  over() {
    return Boolean(this.fold.end) || !this.last.lives;
  }

  // The end of what is known: the last event, or now.
  latest() {
    if (this.fold.end) return this.fold.end.t;
    if (this.last.lives) return Math.max(this.fold.now, Date.now() + this.ahead);
    return Math.max(this.fold.now, this.last.status ? this.last.status.updated_at : 0);
  }
}

// What an event changes in a fold, in its instance and in its attempt.
const APPLY = {
  start: (fold, e) => Object.assign(fold, { start: e, began: e.t }),
  instance: (fold, { i, label, step, why, after, cause }, one) => one || fold.instances.set(i, {
    i, label, step, state: "waiting", why, after, cause, attempts: [], result: null, from: null, disturbances: [],
  }),
  cached: (fold, { outcome, from, result }, one) => one && Object.assign(one, { state: outcome === "ok" ? "cached" : outcome, from, result }),
  started(fold, { a, i, t, gpus, requested, cpus, queued, why }, one) {
    fold.attempts.set(a, { a, i, gpus, requested, cpus, queued, began: t, ended: null, outcome: null, ready: null, released: null, epochs: [] });
    if (!one) return;
    Object.assign(one, { state: queued ? "queued" : "running", why, cause: null, disturbances: [] });
    one.attempts.push(a);
  },
  ready: (fold, e, one, attempt) => attempt && Object.assign(attempt, { ready: e.t }),
  released: (fold, e) => e.attempts.forEach((id) => Object.assign(fold.attempts.get(id) || {}, { released: e.t })),
  epoch: (fold, e, one, attempt) => attempt && attempt.epochs.push({ n: e.n, t: e.t, metrics: e.metrics }),
  ended(fold, { t, outcome, cause, disturbances }, one, attempt) {
    if (attempt) Object.assign(attempt, { ended: t, outcome });
    // Perhaps for the next attempt; otherwise it is settled at once.
    if (one) Object.assign(one, { cause, disturbances, state: outcome === "failed" ? "waiting" : outcome });
  },
  again: (fold, e, one) => one && Object.assign(one, { state: "waiting" }),
  recorded: (fold, { result, again }, one) => one && Object.assign(one, {
    result, state: again && result.outcome === "ok" ? "cached" : result.outcome, cause: result.cause || one.cause,
  }),
  settled: (fold, { unneeded, outcome, cause }, one) => one && Object.assign(one, { state: unneeded ? "not_needed" : outcome, cause }),
  interrupted: (fold) => Object.assign(fold, { interrupted: true }),
  waits: (fold, { of }) => of.forEach(([why, labels]) => labels.forEach((one) => (why ? fold.waits.set(one, why) : fold.waits.delete(one)))),
  forecast: (fold, { t, of }) => Object.assign(fold, { forecast: { t, of } }),
  notice: (fold, { t, i, text }) => fold.notices.push({ t, i, text }),
  end: (fold, e) => Object.assign(fold, { end: e }),
};

export class Fold {
  constructor() {
    Object.assign(this, { start: null, began: 0, now: 0, end: null, interrupted: false, forecast: { t: 0, of: [] } });
    // `waits` has what an instance waits for, by its label.
    Object.assign(this, { instances: new Map(), attempts: new Map(), waits: new Map(), notices: [] });
  }

  // All events until a moment.
  static at(events, until) {
    const fold = new Fold();
    for (const event of events) if (event.t <= until) fold.apply(event);
    fold.now = until;
    return fold;
  }

  apply(e) {
    this.now = Math.max(this.now, e.t);
    APPLY[e.e]?.(this, e, this.instances.get(e.i), this.attempts.get(e.a));
  }

  // The instances of each step by their state.
  counts() {
    const counts = new Map();
    for (const one of this.instances.values()) {
      const of = counts.get(one.step) || counts.set(one.step, new Map()).get(one.step);
      of.set(one.state, (of.get(one.state) || 0) + 1);
    }
    return counts;
  }

  // What the scheduler expects of the instances that still wait, the earliest first.
  ahead() {
    const { t, of } = this.forecast;
    const all = of.map(([i, from, to, gpus]) => ({ i, a: i, from: t + from, to: t + to, gpus }));
    return all.filter((one) => this.instances.get(one.i)?.state === "waiting" && one.to > this.now);
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
    const valued = attempt.epochs.filter((epoch) => typeof epoch.metrics[metric] === "number");
    return valued.map((epoch) => [epoch.n, (epoch.t - attempt.began) / 1000, epoch.metrics[metric]]);
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
}

export const OPEN = ["running", "queued", "waiting"];
export const STATES = ["running", "lost", "queued", "waiting", "ok", "cached", "failed", "out_of_memory", "timed_out", "does_not_fit", "cancelled", "skipped", "not_needed"];
