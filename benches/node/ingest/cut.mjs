// node cut.mjs: takes paths of catalogues in gzip, a line each, and cuts them into chunks as the chunker does, with what programs in Node.js
// take for that. It goes over each twice and tells what the second time took.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { createGunzip, gzip } from "node:zlib";
import chain, { none } from "stream-chain";
import { parser } from "stream-json";
import { streamArray } from "stream-json/streamers/stream-array.js";

const FRAME = 64 * 1024;
const CHUNK_ITEMS = 1000;
const STORING = 4;
const TEXTS = ["TITLE", "DESCRIPTION", "EAN", "BRAND", "NCM", "CATEGORY", "IMAGELINK", "COLOR"];
const NUMBERS = ["PRICE", "PRICEPROMO", "WHOLESALEPRICE", "QUANTITY", "SIZE", "MEASURE", "WHOLESALEMIN", "INDICE"];
const DATES = ["DATACADASTROPRODUTO", "DATAATUALIZACAOPRODUTO", "DATAATUALIZACAOESTOQUE"];

const compress = promisify(gzip);

/** What a window holds of the payload, as storage hands it on. */
function* frames(payload) {
  for (let start = 0; start < payload.length; start += FRAME) yield payload.subarray(start, start + FRAME);
}

/** The item's row, or nothing where the item has a fault. */
function row(item) {
  const { CNPJ: cnpj, SHOPID: shopId, PRODUCTID: productId } = item;
  if (typeof cnpj !== "string" || cnpj.length !== 14 || !Number.isInteger(shopId) || !productId) return undefined;
  const row = { cnpj, shopId, productId: String(productId) };
  for (const name of TEXTS) {
    const text = item[name];
    if (text === null || text === undefined) continue;
    if (typeof text !== "string" || text.includes("\0")) return undefined;
    row[name] = text;
  }
  for (const name of NUMBERS) {
    if (item[name] === null || item[name] === undefined) continue;
    const number = Number(item[name]);
    if (!Number.isFinite(number)) return undefined;
    row[name] = number;
  }
  for (const name of DATES) {
    if (item[name] === null || item[name] === undefined) continue;
    const date = Date.parse(item[name]);
    if (Number.isNaN(date)) return undefined;
    row[name] = date;
  }
  return row;
}

const byKey = (left, right) => {
  if (left.cnpj !== right.cnpj) return left.cnpj < right.cnpj ? -1 : 1;
  if (left.shopId !== right.shopId) return left.shopId - right.shopId;
  return left.productId < right.productId ? -1 : left.productId > right.productId ? 1 : 0;
};

async function cut(payload) {
  const hash = createHash("sha256");
  const storing = new Set();
  const found = { bytes: 0, items: 0, chunks: 0 };
  let rows = [];

  const store = async () => {
    const lines = rows.sort(byKey).map((row) => JSON.stringify(row));
    rows = [];
    while (storing.size >= STORING) await Promise.race(storing);
    const stored = compress(lines.join("\n"), { level: 1 }).then(() => storing.delete(stored));
    storing.add(stored);
    found.chunks += 1;
    return none;
  };

  await pipeline(
    Readable.from(frames(payload), { objectMode: false }),
    createGunzip({ chunkSize: FRAME }),
    chain([
      (window) => {
        hash.update(window);
        found.bytes += window.length;
        return window;
      },
      // No tokens for parts of values.
      parser({ packValues: true, streamValues: false }),
      streamArray(),
      ({ value }) => {
        const one = row(value);
        if (one === undefined) throw new Error("the catalogue has no item with a fault");
        found.items += 1;
        return rows.push(one) < CHUNK_ITEMS ? none : store();
      },
    ]).resume(),
  );
  if (rows.length > 0) await store();
  await Promise.all(storing);
  hash.digest("hex");
  return found;
}

for await (const path of createInterface({ input: process.stdin })) {
  const payload = readFileSync(path);
  await cut(payload);
  const cpu = process.cpuUsage();
  const started = performance.now();
  const { bytes, items } = await cut(payload);
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  console.log(JSON.stringify({ bytes, items, seconds, cpu_seconds: (user + system) / 1e6 }));
}
