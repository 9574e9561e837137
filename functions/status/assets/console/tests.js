// Load tests: the list, the form that starts one, and one test while it runs and afterwards.

import { blob, change, get, uuid } from "./api.js";
import { append, h, swap } from "./dom.js";
import {
  announce, ask, attempt, chart, chip, duration, empty, facts, failure, field, live, loading, number, save, section, select, status, table, time,
} from "./parts.js";
import { locale, t, word } from "./texts.js";

const FINAL = ["STOPPED", "COMPLETED", "FAILED"];
const LATENCIES = ["p50", "p90", "p95", "p99", "p99_9", "max"];
const ACCOUNTS = ["due", "sent", "confirmed", "received", "lost", "retained", "refused", "inDoubt", "notSent", "doubled", "outOfOrder"];

const path = (id) => `tests/${encodeURIComponent(id)}`;
const passed = (value) => (value === null ? "–" : value ? chip("good", t("test.met")) : chip("bad", t("test.notMet")));

export function list(main) {
  const place = h("div");
  const older = h("div");
  const columns = () => [
    { title: t("test"), cell: (test) => h("a", { href: `#/tests/${test.testId}`, "data-key": test.testId }, h("code", {}, test.testId.slice(-12))) },
    { title: t("batch.status"), cell: (test) => status(test.status) },
    { title: t("test.target"), cell: (test) => h("code", {}, test.target) },
    { title: t("test.begun"), cell: (test) => time(test.createdAt) },
    { title: t("test.passed"), cell: (test) => passed(test.passed) },
    { title: t("test.summary"), cell: (test) => test.summary ?? "–" },
  ];
  main.append(
    h("h1", { tabindex: "-1" }, t("nav.tests")),
    h("p", {}, h("a.button.primary", { href: "#/tests/new" }, t("test.new"))),
    section(t("test.list"), place, older),
  );
  return live(place, (signal) => get("tests", { query: { limit: 50 }, signal }), ({ tests, nextCursor }) => {
    swap(place, tests.length ? table(t("test.list"), columns(), tests) : empty(t("test.none")));
    swap(older, nextCursor && h("p.small", {}, t("test.newest")));
  }, 5000);
}

function numberInput(value, least, most, required = true) {
  return h("input", { type: "number", min: String(least), max: String(most), value, required, inputmode: "numeric" });
}

async function form(place) {
  let targets;
  try {
    ({ targets } = await get("targets"));
  } catch (problem) {
    return swap(place, failure(problem, () => form(place)));
  }
  if (!targets.length) return swap(place, empty(t("queue.noTargets")));
  const target = select(targets.map((each) => [each.name, each.name]), targets[0].name);
  const queue = h("input", { type: "text", required: true, maxlength: "255", spellcheck: "false", autocomplete: "off" });
  const producers = numberInput("1", 0, 100);
  const consumers = numberInput("1", 0, 100);
  const rate = numberInput("100", 1, 1_000_000);
  const size = numberInput("1024", 0, 4_194_304);
  const seconds = numberInput("30", 1, 604_800);
  const p99 = numberInput("", 1, 120_000, false);
  const button = h("button.primary", { type: "submit" }, t("test.start"));
  const result = h("div");
  const element = h(
    "form",
    {},
    h("p.warning", {}, t("test.real")),
    field(t("test.profile"), target),
    field(t("queue"), queue, t("test.queue.hint")),
    h("div.filters", {}, field(t("test.producers"), producers), field(t("test.consumers"), consumers), field(t("test.rate"), rate, t("test.rate.hint")),
      field(t("test.size"), size), field(t("test.seconds"), seconds), field(t("test.p99"), p99, t("test.p99.hint"))),
    h("div.actions", {}, button),
    result,
  );
  let key = null;
  element.addEventListener("input", () => (key = null));
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    key ??= uuid();
    const [puts, takes] = [Number(producers.value), Number(consumers.value)];
    const body = { targetRef: target.value, target: { queue: queue.value }, durationSeconds: Number(seconds.value) };
    if (puts) body.producers = { count: puts, ratePerSec: Number(rate.value), messageSizeBytes: Number(size.value) };
    if (takes) body.consumers = { count: takes };
    if (p99.value && puts) body.expect = { [takes ? "endToEndLatencyUs" : "putLatencyUs"]: { p99: Number(p99.value) * 1000 } };
    const begun = await attempt(button, result, () => change("tests", body, key));
    if (begun) location.hash = `#/tests/${begun.testId}`;
  });
  return swap(place, element);
}

export function start(main) {
  const place = h("div", {}, loading());
  main.append(h("p", {}, h("a", { href: "#/tests" }, t("test.back"))), h("h1", { tabindex: "-1" }, t("test.new")), place);
  form(place);
}

function rates({ rates: found, durationSeconds, cost }) {
  return facts(
    [t("test.asked"), number(found.askedPerSec, 1)],
    [t("test.sentPerSec"), number(found.sentPerSec, 1)],
    [t("test.confirmedPerSec"), number(found.confirmedPerSec, 1)],
    [t("test.receivedPerSec"), number(found.receivedPerSec, 1)],
    [t("test.held"), found.held ? chip("good", t("yes")) : chip("warn", t("no"))],
    [t("batch.took"), duration(durationSeconds * 1000)],
    [t("test.cost"), `${number(cost.estimateUsd, 4)} USD`],
  );
}

function latencies(report) {
  const rows = [["test.put", report.putLatencyUs], ["test.endToEnd", report.endToEndLatencyUs], ["test.lateness", report.latenessUs]].filter(([, found]) => found);
  if (!rows.length) return null;
  const percentile = (name) => ({ title: name.replace("_", "."), number: true, cell: ([, found]) => duration(found[name] / 1000) });
  return table(t("test.latency"), [{ title: t("test.measure"), cell: ([name]) => t(name) }, ...LATENCIES.map(percentile)], rows);
}

function shownReport(report) {
  const { series } = report;
  return [
    section(t("test.rates"), rates(report), chart(t("test.perSecond"), [t("test.sent"), t("test.received")], [series.sent, series.received], (at) => `${at + 1} s`)),
    section(t("test.latency"), latencies(report) ?? empty(t("test.unmeasured"))),
    section(t("test.accounting"), facts(...ACCOUNTS.map((name) => [word("account", name), number(report.accounting[name])]))),
    report.expect && section(t("test.expect"), table(t("test.expect"), [
      { title: t("test.measure"), cell: (each) => h("code", {}, each.metric) },
      { title: t("test.bound"), number: true, cell: (each) => `${each.atLeast ? "≥" : "≤"} ${number(each.bound)}` },
      { title: t("test.value"), number: true, cell: (each) => number(each.value, 1) },
      { title: t("test.passed"), cell: (each) => passed(each.outcome === "notMeasured" ? null : each.outcome === "met") },
    ], report.expect.criteria)),
  ];
}

function changed({ change: kind, changePercent: percent }) {
  return percent === null ? word("changed", kind) : `${word("changed", kind)} ${number(percent, 1)} %`;
}

function compared({ comparison }) {
  const kinds = { better: "good", worse: "bad", same: "none" };
  return table(t("compare.caption"), [
    { title: t("test.measure"), cell: (each) => h("code", {}, each.metric) },
    { title: t("compare.before"), number: true, cell: (each) => number(each.baseline, 2) },
    { title: t("compare.now"), number: true, cell: (each) => number(each.value, 2) },
    { title: t("compare.change"), cell: (each) => chip(kinds[each.change] ?? "none", changed(each)) },
  ], comparison.deltas);
}

// The comparison with another test that has ended.
function comparer(id) {
  const place = h("div", {}, loading());
  async function show() {
    try {
      const { tests } = await get("tests", { query: { limit: 100 } });
      const others = tests.filter((test) => test.testId !== id && FINAL.includes(test.status));
      if (!others.length) return swap(place, empty(t("compare.none")));
      const named = (test) => [test.testId, `${test.testId.slice(-12)} · ${test.target} · ${new Date(test.createdAt).toLocaleString(locale())}`];
      const chooser = select(others.map(named), others[0].testId);
      const button = h("button", { type: "submit" }, t("compare.do"));
      const result = h("div");
      const element = h("form", {}, field(t("compare.baseline"), chooser), h("div.actions", {}, button), result);
      element.addEventListener("submit", async (event) => {
        event.preventDefault();
        const found = await attempt(button, result, () => get(path(id), { query: { baseline: chooser.value } }));
        if (found) swap(result, found.report?.comparison ? compared(found.report) : empty(t("compare.impossible")));
      });
      return swap(place, element);
    } catch (problem) {
      return swap(place, failure(problem, show));
    }
  }
  show();
  return section(t("compare.title"), place);
}

function stopper(id) {
  const button = h("button.danger", { type: "button" }, t("test.stop"));
  const place = h("div");
  const key = uuid();
  button.addEventListener("click", async () => {
    if (!(await ask({ title: t("test.stop"), body: h("p", {}, t("test.stop.does")), confirm: t("test.stop") }))) return;
    const found = await attempt(button, place, () => change(`${path(id)}/stop`, {}, key));
    if (found) swap(place, h("p", { role: "status" }, status(found.status)));
  });
  return h("div.actions", {}, button, place);
}

function downloads(id) {
  const button = h("button", { type: "button" }, t("test.report"));
  const place = h("div");
  button.addEventListener("click", async () => {
    const page = await attempt(button, place, () => blob(path(id), { query: { format: "html" } }));
    if (!page) return;
    swap(place);
    save(page, `load-test-${id}.html`);
  });
  return h("div.actions", {}, button, place);
}

export function detail(main, id) {
  const [head, actions, body, rest] = [h("div"), h("div"), h("div"), h("div")];
  let state = null;
  let said = null;
  main.append(h("p", {}, h("a", { href: "#/tests" }, t("test.back"))), h("h1", { tabindex: "-1" }, t("test"), " ", h("code", {}, id.slice(-12))), head, actions, body, rest);
  return live(head, (signal) => get(path(id), { signal }), (test) => {
    const isFinal = FINAL.includes(test.status);
    if (said && said !== test.status) announce(word("status", test.status));
    said = test.status;
    swap(
      head,
      h("p.lead", {}, status(test.status), " ", test.passed !== null && passed(test.passed)),
      test.summary && h("p", {}, test.summary),
      test.failure && h("p.warning", {}, test.failure),
      test.warnings.map((warning) => h("p.warning", {}, warning)),
      facts([t("test.target"), h("code", {}, test.target)], [t("test.workers"), number(test.workers)], [t("test.begun"), time(test.createdAt)], test.endedAt && [t("test.ended"), time(test.endedAt)]),
    );
    swap(body, test.report ? shownReport(test.report) : empty(t(isFinal ? "test.noReport" : "test.waiting")));
    if (state !== isFinal) {
      state = isFinal;
      swap(actions, isFinal ? test.report && downloads(id) : stopper(id));
      if (isFinal && test.report) append(rest, comparer(id));
    }
    return !isFinal;
  }, 2000);
}
