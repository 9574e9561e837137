// The first screen: what needs somebody, what arrives, and whether everything answers.

import { batches, get, readiness } from "./api.js";
import { h, swap } from "./dom.js";
import { bar, bytes, chip, empty, live, number, section, status, table, time } from "./parts.js";
import { t, word } from "./texts.js";

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

export function today(main) {
  const [waiting, coming, day, ready, left] = [1, 2, 3, 4, 5].map(() => h("div"));
  main.append(
    h("h1", { tabindex: "-1" }, t("nav.today")),
    section(t("today.needs"), waiting),
    section(t("today.arriving"), coming),
    section(t("today.day"), day),
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
    live(ready, readiness, (found) => swap(ready, dependencies(found)), 30_000),
    live(left, (signal) => get("limits", { signal }), (found) => swap(left, limits(found)), 10_000),
  ];
  return () => stops.forEach((stop) => stop());
}
