// What the screens are made of: states, tables, numbers, charts, questions and polling.

import { h, newId, swap } from "./dom.js";
import { Problem, Unreachable } from "./api.js";
import { locale, t, word } from "./texts.js";

// Numbers, sizes and times

export const number = (value, digits = 0) =>
  value === null || value === undefined
    ? "–"
    : new Intl.NumberFormat(locale(), { maximumFractionDigits: digits }).format(value);

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "kB", "MB", "GB"];
  const step = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(value, 1)) / 3));
  return `${number(value / 1000 ** step, step ? 1 : 0)} ${units[step]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined || Number.isNaN(ms)) return "–";
  if (ms < 1000) return `${number(ms, ms < 10 ? 2 : 0)} ms`;
  if (ms < 60_000) return `${number(ms / 1000, 1)} s`;
  if (ms < 3_600_000) return `${number(ms / 60_000, 1)} min`;
  return `${number(ms / 3_600_000, 1)} h`;
}

const STEPS = [[86_400, "day"], [3_600, "hour"], [60, "minute"], [1, "second"]];

// A time as people say it, with the whole of it in its title.
export function time(text) {
  if (!text) return "–";
  const at = new Date(text);
  // Senders of messages may give them a time that no calendar has.
  if (Number.isNaN(at.getTime())) return String(text);
  const seconds = Math.round((at.getTime() - Date.now()) / 1000);
  const [size, unit] = STEPS.find(([each]) => Math.abs(seconds) >= each) ?? STEPS[3];
  const said = new Intl.RelativeTimeFormat(locale(), { numeric: "auto" }).format(Math.trunc(seconds / size), unit);
  return h("time", { datetime: text, title: at.toLocaleString(locale()) }, said);
}

// States

const MARKS = { good: "✓", bad: "✕", warn: "!", busy: "…", none: "–" };
const STATES = {
  COMPLETED: "good", FAILED: "bad", PARTIAL_FAIL: "warn", EXPIRED: "none", AWAITING_UPLOAD: "busy", RECEIVED: "busy",
  CHUNKING: "busy", PROCESSING: "busy", PENDING: "busy", RUNNING: "busy", IN_PROGRESS: "busy", PREPARED: "busy", STOPPING: "busy", STOPPED: "none",
};

// A word with a sign, so that colour alone says nothing.
export function chip(kind, text, title) {
  return h(`span.chip.${kind}`, { title }, h("span", { "aria-hidden": "true" }, MARKS[kind]), " ", text);
}

export const status = (name) => chip(STATES[name] ?? "none", word("status", name), name);

export function loading() {
  return h("p.state", { role: "status" }, t("state.loading"));
}

export function empty(text, ...more) {
  return h("div.state", {}, h("p", {}, text), more);
}

const title = (text) => h("p", {}, h("strong", {}, text));

// What went wrong, and what to quote. A key that may not is no fault of anything.
export function failure(problem, retry) {
  const again = retry && h("button", { type: "button", onclick: retry, "data-key": "retry" }, t("action.retry"));
  if (problem instanceof Unreachable) {
    return h("div.state.failed", { role: "alert" }, title(t("state.unreachable")), h("p", {}, t("state.unreachable.more")), again);
  }
  if (!(problem instanceof Problem)) {
    // A response that is no JSON comes from something in between. Anything else is this page's fault.
    if (!(problem instanceof SyntaxError)) reportError(problem);
    return h("div.state.failed", { role: "alert" }, title(t("state.unshown")), h("p.small", {}, String(problem.message)), again);
  }
  const isForbidden = problem.status === 403;
  return h(
    `div.state.${isForbidden ? "forbidden" : "failed"}`,
    { role: "alert" },
    title(isForbidden ? t("state.forbidden") : problem.title || t("state.failed", { status: problem.status })),
    problem.message && h("p", {}, problem.message),
    problem.errors.length > 0 && h("ul", {}, problem.errors.map((error) => h("li", {}, h("code", {}, error.pointer || "/"), " ", error.detail))),
    h("p.small", {}, h("code", {}, problem.reason || problem.status), problem.broker && ` · ${problem.broker.product} ${problem.broker.code} ${problem.broker.name}`),
    problem.traceId && h("p.small", {}, t("state.trace"), " ", h("code", {}, problem.traceId), " ", copyButton(problem.traceId)),
    again,
  );
}

function copyButton(text) {
  const onclick = async () => {
    await navigator.clipboard.writeText(text);
    announce(t("state.copied"));
  };
  // Only where the page comes over TLS or from this machine.
  return navigator.clipboard && h("button.quiet", { type: "button", onclick, "aria-label": t("action.copyTrace") }, t("action.copy"));
}

// Says something to a screen reader.
export function announce(text) {
  const place = document.getElementById("announcements");
  if (place) place.textContent = text;
}

// Layout

export function section(title, ...content) {
  const id = newId();
  return h("section", { "aria-labelledby": id }, h("h2", { id }, title), content);
}

export function facts(...pairs) {
  return h("dl", {}, pairs.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

// A table; on a narrow screen, a card for each row. The roles stay when the style is another.
export function table(caption, columns, rows) {
  const kind = (column) => (column.number ? "num" : undefined);
  return h(
    "table",
    { role: "table" },
    h("caption", {}, caption),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((each) => h("th", { scope: "col", role: "columnheader", class: kind(each) }, each.title)))),
    h(
      "tbody",
      { role: "rowgroup" },
      rows.map((row) =>
        h("tr", { role: "row" }, columns.map((each, index) =>
          h(index ? "td" : "th", { scope: index ? null : "row", role: index ? "cell" : "rowheader", class: kind(each), "data-label": each.title }, each.cell(row)))),
      ),
    ),
  );
}

export function bar(label, value, most) {
  return h("progress", { max: Math.max(most, 1), value, "aria-label": label }, `${value}/${most}`);
}

// A labelled control, with a hint that is read with it.
export function field(label, control, hint) {
  const id = newId();
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}h`);
  return h("div.field", {}, h("label", { for: id }, label), control, hint && h("p.small", { id: `${id}h` }, hint));
}

// One of several, as radio buttons: `[[value, label, hint]]`.
export function choice(legend, name, options, chosen) {
  return h("fieldset", {}, h("legend", {}, legend), options.map(([value, label, hint]) => {
    const input = h("input", { type: "radio", name, value, checked: value === chosen });
    const id = newId();
    if (hint) input.setAttribute("aria-describedby", id);
    return h("div.choice", {}, h("label", {}, input, " ", label), hint && h("p.small", { id }, hint));
  }));
}

export function select(options, chosen, properties = {}) {
  return h("select", properties, options.map(([value, label]) => h("option", { value, selected: value === chosen }, label)));
}

export function save(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

// Asks before something is done; resolves to whether it shall be. With `typed`, this text has to be
// typed first.
export function ask({ title, body, confirm, typed, dangerous = true }) {
  return new Promise((resolve) => {
    const id = newId();
    const yes = h(`button${dangerous ? ".danger" : ".primary"}`, { type: "button", disabled: Boolean(typed), onclick: () => end(true) }, confirm);
    const input = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
    input.addEventListener("input", () => (yes.disabled = input.value !== typed));
    const dialog = h(
      "dialog",
      { "aria-labelledby": id, oncancel: () => end(false) },
      h("h2", { id }, title),
      body,
      typed && field(t("ask.type", { text: typed }), input),
      h("div.actions", {}, h("button", { type: "button", onclick: () => end(false) }, t("action.cancel")), yes),
    );
    const before = document.activeElement;
    function end(answer) {
      dialog.remove();
      before?.focus();
      resolve(answer);
    }
    document.body.append(dialog);
    dialog.showModal();
  });
}

// Runs what a button or form starts: once at a time, and with what went wrong beside it. The button
// keeps the focus meanwhile.
export async function attempt(button, place, work) {
  if (button.hasAttribute("aria-busy")) return undefined;
  button.setAttribute("aria-busy", "true");
  swap(place, loading());
  try {
    return await work();
  } catch (problem) {
    swap(place, failure(problem));
    return undefined;
  } finally {
    button.removeAttribute("aria-busy");
  }
}

// Lines over time, with the figures as a table for who cannot see them.
export function chart(label, names, series, each) {
  const [width, height] = [600, 120];
  const most = Math.max(1, ...series.flat().map((value) => value ?? 0));
  const longest = Math.max(2, ...series.map((values) => values.length));
  const lines = series.map((values, index) => {
    const points = values.flatMap((value, at) =>
      value === null || value === undefined ? [] : [`${(at * width) / (longest - 1)},${height - 2 - (value * (height - 4)) / most}`]);
    return h(`polyline.line${index}`, { points: points.join(" "), fill: "none", "vector-effect": "non-scaling-stroke" });
  });
  const last = names.map((name, index) => `${name}: ${number(series[index].findLast((value) => value !== null))}`).join(", ");
  const rows = [...Array(longest).keys()].filter((at) => at >= longest - 30 && series.some((values) => values[at] !== undefined));
  const columns = names.map((title, index) => ({ title, number: true, cell: (at) => number(series[index][at]) }));
  return h(
    "figure",
    {},
    h("div.chart", {}, h("span.most", { "aria-hidden": "true" }, number(most)),
      h("svg", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${label}. ${last}` }, lines)),
    h("figcaption", {}, names.map((name, index) => h(`span.key.line${index}`, {}, name))),
    h("details", { "data-key": `figures ${label}` }, h("summary", { "data-key": `of ${label}` }, t("chart.figures")),
      table(label, [{ title: t("chart.when"), cell: each }, ...columns], rows)),
  );
}

// Polling

const IDLE_MS = 600_000;
let touched = Date.now();
for (const event of ["pointerdown", "keydown"]) {
  globalThis.addEventListener?.(event, () => {
    const wasIdle = Date.now() - touched > IDLE_MS;
    touched = Date.now();
    if (wasIdle) globalThis.dispatchEvent(new Event("wake"));
  });
}

// Repeats `work` while the page is seen and used: it waits longer after each failure, and not less
// than the API asks for. It ends when `work` returns false. Returns a function that stops it.
export function poll(work, every = 3000) {
  const abort = new AbortController();
  let timer = null;
  let isRunning = false;
  let delay = every;
  async function turn() {
    clearTimeout(timer);
    if (abort.signal.aborted || isRunning || document.hidden || Date.now() - touched > IDLE_MS) return;
    isRunning = true;
    try {
      if ((await work(abort.signal)) === false) abort.abort();
      delay = every;
    } catch (problem) {
      if (problem.name === "AbortError") return;
      // What this key may not, it may not in a while either.
      if (problem.status === 401 || problem.status === 403 || problem.status === 404) abort.abort();
      delay = Math.max(Math.min(delay * 2, 60_000), (problem.retryAfter ?? 0) * 1000);
    } finally {
      isRunning = false;
    }
    if (!abort.signal.aborted) timer = setTimeout(turn, delay * (0.9 + Math.random() / 5));
  }
  document.addEventListener("visibilitychange", turn, { signal: abort.signal });
  globalThis.addEventListener("wake", turn, { signal: abort.signal });
  turn();
  return () => {
    clearTimeout(timer);
    abort.abort();
  };
}

// Polls into an element: shows what went wrong there, and tries again by itself.
export function live(place, load, render, every) {
  let said = null;
  swap(place, loading());
  return poll(async (signal) => {
    try {
      const data = await load(signal);
      if (signal.aborted) return false;
      said = null;
      return render(data);
    } catch (problem) {
      const what = `${problem.name} ${problem.status} ${problem.reason} ${problem.message}`;
      // An alert is read aloud, so the same one is there once.
      if (problem.name !== "AbortError" && what !== said) swap(place, failure(problem));
      said = what;
      throw problem;
    }
  }, every);
}
