// The first screen: what needs somebody, what arrives, and whether everything answers.

import { batches, get, readiness } from "./api.js";
import { h, swap } from "./dom.js";
import { bar, bytes, chip, empty, live, number, section, status, table, time } from "./parts.js";
import { locale, t, word } from "./texts.js";

const OPEN = ["AWAITING_UPLOAD", "RECEIVED", "CHUNKING", "PROCESSING"];
const STUCK_MS = 15 * 60_000;
const DAY_MS = 86_400_000;

const age = (text) => Date.now() - new Date(text).getTime();

// Why a batch needs somebody, and what to do; `null` if it needs nobody.
export function need(batch) {
  if (batch.status === "FAILED") return ["bad", t("need.failed"), t("need.failed.do")];
  if (batch.deactivation.state === "held") {
    return ["warn", t("need.held", { count: number(batch.deactivation.would_deactivate) }), t("need.held.do")];
  }
  const hasErrors = batch.status === "COMPLETED" && batch.items_failed > 0;
  if (hasErrors || batch.status === "PARTIAL_FAIL") return ["warn", t("need.partial", { count: number(batch.items_failed) }), t("need.partial.do")];
  if (batch.status === "AWAITING_UPLOAD" && age(batch.received_at) > STUCK_MS) return ["none", t("need.upload"), t("need.upload.do")];
  if (OPEN.includes(batch.status) && age(batch.received_at) > STUCK_MS) return ["warn", t("need.stuck"), t("need.stuck.do")];
  return null;
}

export const link = (batch, text) =>
  h("a", { href: `#/batches/${batch.batch_id}`, "data-key": `${text ?? ""}${batch.batch_id}` }, text ?? h("code", {}, batch.batch_id.slice(-12)));

function needs(all) {
  const found = all.map((batch) => [batch, need(batch)]).filter(([, why]) => why);
  if (!found.length) return empty(h("span", {}, chip("good", t("today.nothing"))));
  return table(t("today.needs.caption"), [
    { title: t("batch"), cell: ([batch]) => link(batch) },
    { title: t("today.why"), cell: ([, [kind, why]]) => chip(kind, why) },
    { title: t("batch.received"), cell: ([batch]) => time(batch.received_at) },
    { title: t("today.next"), cell: ([batch, [, , next]]) => link(batch, next) },
  ], found);
}

export function progress(batch) {
  const { total, done, failed, pending } = batch.chunks;
  if (!pending) return status(batch.status);
  return [status(batch.status), " ", bar(t("batch.progress"), done + failed, total), ` ${number(done + failed)}/${number(total)}`];
}

function arriving(all) {
  const open = all.filter((batch) => OPEN.includes(batch.status));
  if (!open.length) return empty(t("today.quiet"), h("p", {}, h("a", { href: "#/batches", "data-key": "send" }, t("today.send"))));
  return table(t("today.arriving.caption"), [
    { title: t("batch"), cell: (batch) => link(batch) },
    { title: t("batch.status"), cell: progress },
    { title: t("batch.received"), cell: (batch) => time(batch.received_at) },
    { title: t("batch.size"), number: true, cell: (batch) => bytes(batch.payload.bytes) },
  ], open);
}

function figures(all) {
  const day = all.filter((batch) => age(batch.received_at) < DAY_MS);
  const sum = (of) => number(day.reduce((total, batch) => total + of(batch), 0));
  const shown = [
    [t("today.batches"), number(day.length)],
    [t("today.items"), sum((batch) => batch.items_processed)],
    [t("today.failed"), sum((batch) => batch.items_failed)],
    [t("today.changed"), sum((batch) => batch.changes.inserted + batch.changes.updated)],
  ];
  return [
    h("dl.figures", {}, shown.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    all.length === 100 && h("p.small", {}, t("today.newest")),
  ];
}

function dependencies({ dependencies: all, works = [], degraded = [] }) {
  const uses = [...degraded.map((name) => ["bad", name]), ...works.map((name) => ["good", name])];
  const said = uses.length > 0 && h("p", {}, uses.map(([kind, name]) => [chip(kind, `${word("use", name)}: ${kind === "good" ? t("use.works") : t("use.fails")}`), " "]));
  return [said, table(t("today.dependencies.caption"), [
    { title: t("today.dependency"), cell: (each) => word("dependency", each.name) },
    { title: t("batch.status"), cell: (each) => (each.ok ? chip("good", t("today.answers")) : chip("bad", t("today.silent"))) },
    { title: t("today.latency"), number: true, cell: (each) => `${number(each.latencyMs, 1)} ms` },
  ], all)];
}

function limits({ limits: all }) {
  if (!all.length) return empty(t("today.unlimited"));
  return table(t("today.limits.caption"), [
    { title: t("today.limit"), cell: (each) => `${each.name} · ${word("unit", each.unit)}` },
    { title: t("today.rate"), number: true, cell: (each) => number(each.perSecond, 3) },
    {
      title: t("today.left"),
      cell: (each) => [each.remaining !== null && bar(`${each.name} ${word("unit", each.unit)}`, each.remaining, each.burst), ` ${number(each.remaining)}/${number(each.burst)}`],
    },
  ], all);
}

const DAYS = 7;
const utcDay = (ms) => new Date(ms).toISOString().slice(0, 10);
const sumOf = (all, member) => all.reduce((total, each) => total + each[member], 0);

// Requests by day; `null` if nothing was counted.
export function usage({ usage: all, complete }) {
  const used = all.flatMap((each) => each.operations.map((operation) => ({ period: each.period, ...operation })));
  if (!used.length) return null;
  const days = [...Array(DAYS).keys()].map((back) => {
    const period = utcDay(Date.now() - (DAYS - 1 - back) * DAY_MS);
    const of = used.filter((each) => each.period === period);
    return { period, ...Object.fromEntries(["requests", "failed", "messages", "bytes"].map((member) => [member, sumOf(of, member)])) };
  });
  const most = Math.max(...days.map((each) => each.requests));
  const named = ({ period }) => new Date(period).toLocaleDateString(locale(), { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
  return [
    table(t("today.usage.caption"), [
      { title: t("today.usage.day"), cell: named },
      { title: t("today.usage.requests"), cell: (each) => [bar(`${named(each)} ${t("today.usage.requests")}`, each.requests, most), ` ${number(each.requests)}`] },
      { title: t("today.usage.failed"), number: true, cell: (each) => number(each.failed) },
      { title: t("today.usage.messages"), number: true, cell: (each) => number(each.messages) },
      { title: t("today.usage.bytes"), number: true, cell: (each) => bytes(each.bytes) },
    ], days),
    !complete && h("p.small", {}, t("today.usage.incomplete")),
  ];
}

// The usage of the last days in a section that is there only if there is something to show.
function liveUsage(whole, place) {
  const load = async (signal) => {
    try {
      const query = { from: utcDay(Date.now() - (DAYS - 1) * DAY_MS), to: utcDay(Date.now()), group: "day" };
      return await get("v1/usage", { query, signal });
    } catch (problem) {
      // A key that may not see it, or a deployment without it, has no section.
      if (problem.status === 403 || problem.status === 404) return null;
      if (problem.name !== "AbortError") whole.hidden = false;
      throw problem;
    }
  };
  return live(place, load, (found) => {
    const shown = found && usage(found);
    whole.hidden = !shown;
    if (shown) swap(place, shown);
    return found !== null;
  }, 60_000);
}

export function today(main) {
  const [waiting, coming, day, ready, left, used] = [1, 2, 3, 4, 5, 6].map(() => h("div"));
  const usageSection = section(t("today.usage"), used);
  usageSection.hidden = true;
  main.append(
    h("h1", { tabindex: "-1" }, t("nav.today")),
    section(t("today.needs"), waiting),
    section(t("today.arriving"), coming),
    section(t("today.day"), day),
    usageSection,
    section(t("today.dependencies"), ready),
    section(t("today.limits"), left),
  );
  const newest = async (signal) => {
    try {
      return await batches({ limit: 100 }, signal);
    } catch (problem) {
      // The first section has the alert, which is read aloud; the others are made of the same batches.
      if (problem.status === 403) for (const place of [coming, day]) swap(place, h("div.state.forbidden", {}, h("p", {}, t("state.forbidden"))));
      throw problem;
    }
  };
  const stops = [
    live(waiting, newest, ({ batches: all }) => {
      swap(waiting, needs(all));
      swap(coming, arriving(all));
      swap(day, figures(all));
    }, 5000),
    liveUsage(usageSection, used),
    live(ready, readiness, (found) => swap(ready, dependencies(found)), 30_000),
    live(left, (signal) => get("limits", { signal }), (found) => swap(left, limits(found)), 10_000),
  ];
  return () => stops.forEach((stop) => stop());
}
