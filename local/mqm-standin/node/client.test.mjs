// IBM's client for Node.js against the stand-in: what its samples do, with synchronous and
// asynchronous calls. Each test has a queue manager of its own.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { promisify } from "node:util";

import mq from "ibmmq";

const { MQC } = mq;
const call = (verb) => promisify(mq[verb].bind(mq));
const [connect, open, put, close, disconnect, commit, back, inquire, control] =
  ["Connx", "Open", "Put", "Close", "Disc", "Cmit", "Back", "Inq", "Ctl"].map(call);

let directory;
let daemon;

beforeEach(async () => {
  // A unix socket's path has at most 107 bytes.
  directory = mkdtempSync(path.join(process.env.MQM_STANDIN_SOCKETS, "n-"));
  process.env.MQM_STANDIN_DIR = directory;
  const configuration = process.env.MQM_STANDIN_CONFIGURATION;
  const options = ["run", "--directory", directory, "--configuration", configuration];
  daemon = spawn(process.env.MQM_STANDIN_PROGRAM, options, { stdio: ["pipe", "pipe", "inherit"] });
  const [ready] = await once(daemon.stdout, "data");
  assert.equal(String(ready), "ready\n");
});

afterEach(async () => {
  const ended = once(daemon, "exit");
  daemon.stdin.end();
  await ended;
  rmSync(directory, { recursive: true });
});

function connection(password = "passw0rd") {
  const cno = new mq.MQCNO();
  cno.SecurityParms = new mq.MQCSP();
  cno.SecurityParms.UserId = "app";
  cno.SecurityParms.Password = password;
  cno.ClientConn = new mq.MQCD();
  cno.ClientConn.ConnectionName = "localhost(1414)";
  cno.ClientConn.ChannelName = "DEV.APP.SVRCONN";
  return connect("QM1", cno);
}

function opened(connection, name, options) {
  const od = new mq.MQOD();
  od.ObjectName = name;
  od.ObjectType = MQC.MQOT_Q;
  return open(connection, od, options);
}

async function send(queue, body, { options = MQC.MQPMO_NO_SYNCPOINT, ...fields } = {}) {
  const pmo = new mq.MQPMO();
  pmo.Options = options | MQC.MQPMO_NEW_MSG_ID;
  const md = Object.assign(new mq.MQMD(), fields);
  await put(queue, md, pmo, Buffer.from(body));
  return md;
}

// A message as text, or the name of the reason.
function receive(queue, options = MQC.MQGMO_NO_SYNCPOINT, md = new mq.MQMD(), matching = MQC.MQMO_NONE) {
  const gmo = new mq.MQGMO();
  gmo.Options = options | MQC.MQGMO_NO_WAIT | MQC.MQGMO_FAIL_IF_QUIESCING;
  gmo.MatchOptions = matching;
  const buffer = Buffer.alloc(1024);
  let result;
  mq.GetSync(queue, md, gmo, buffer, (error, length) => {
    result = error ? error.mqrcstr : buffer.toString("utf8", 0, length);
  });
  return result;
}

test("what is put is browsed, inquired and got", async () => {
  const qm = await connection();
  const queue = await opened(
    qm,
    "DEV.QUEUE.1",
    MQC.MQOO_OUTPUT | MQC.MQOO_INPUT_SHARED | MQC.MQOO_BROWSE | MQC.MQOO_INQUIRE,
  );
  await send(queue, "one");
  const { MsgId } = await send(queue, "two", { Priority: 7 });
  assert.equal(receive(queue, MQC.MQGMO_NO_SYNCPOINT | MQC.MQGMO_BROWSE_FIRST), "two");
  const [depth] = await inquire(queue, [new mq.MQAttr(MQC.MQIA_CURRENT_Q_DEPTH)]);
  assert.equal(depth.value, 2);
  const wanted = Object.assign(new mq.MQMD(), { MsgId });
  assert.equal(receive(queue, MQC.MQGMO_NO_SYNCPOINT, wanted, MQC.MQMO_MATCH_MSG_ID), "two");
  assert.equal(receive(queue), "one");
  assert.equal(receive(queue), "MQRC_NO_MSG_AVAILABLE");
  await close(queue, 0);
  await disconnect(qm);
});

test("a unit of work is backed out or committed as a whole", async () => {
  const qm = await connection();
  const queue = await opened(qm, "DEV.QUEUE.1", MQC.MQOO_OUTPUT | MQC.MQOO_INPUT_SHARED);
  for (const finish of [back, commit]) {
    await send(queue, "one", { options: MQC.MQPMO_SYNCPOINT });
    await send(queue, "two", { options: MQC.MQPMO_SYNCPOINT });
    await finish(qm);
  }
  const got = [receive(queue), receive(queue), receive(queue)];
  assert.deepEqual(got, ["one", "two", "MQRC_NO_MSG_AVAILABLE"]);
  await disconnect(qm);
});

test("a wrong password and an unknown queue have IBM's reasons", async () => {
  await assert.rejects(connection("wrong"), { mqrc: MQC.MQRC_NOT_AUTHORIZED });
  const qm = await connection();
  await assert.rejects(opened(qm, "DEV.NONE", MQC.MQOO_OUTPUT), { mqrc: MQC.MQRC_UNKNOWN_OBJECT_NAME });
  await disconnect(qm);
});

test("properties of a message come back", async () => {
  const qm = await connection();
  const queue = await opened(qm, "DEV.QUEUE.1", MQC.MQOO_OUTPUT | MQC.MQOO_INPUT_SHARED);
  const handle = await promisify(mq.CrtMh)(qm, new mq.MQCMHO());
  const described = [new mq.MQSMPO(), new mq.MQPD()];
  for (const [name, value] of [["shop", "north"], ["number", 12]]) {
    await promisify(mq.SetMp)(qm, handle, described[0], name, described[1], value);
  }
  const pmo = new mq.MQPMO();
  pmo.Options = MQC.MQPMO_NO_SYNCPOINT;
  pmo.OriginalMsgHandle = handle;
  await put(queue, new mq.MQMD(), pmo, Buffer.from("with properties"));
  const gmo = new mq.MQGMO();
  gmo.Options = MQC.MQGMO_NO_SYNCPOINT | MQC.MQGMO_PROPERTIES_IN_HANDLE;
  gmo.MsgHandle = await promisify(mq.CrtMh)(qm, new mq.MQCMHO());
  mq.GetSync(queue, new mq.MQMD(), gmo, Buffer.alloc(64), (error) => assert.ifError(error));
  const found = {};
  const impo = new mq.MQIMPO();
  impo.Options = MQC.MQIMPO_INQ_NEXT | MQC.MQIMPO_CONVERT_VALUE;
  for (let more = true; more; ) {
    mq.InqMp(qm, gmo.MsgHandle, impo, new mq.MQPD(), "%", Buffer.alloc(64), (error, name, value) => {
      more = !error;
      if (more) found[name] = value;
    });
  }
  assert.deepEqual(found, { shop: "north", number: 12 });
  await disconnect(qm);
});

test("messages come to a callback until it has enough", { timeout: 30_000 }, async () => {
  const qm = await connection();
  const queue = await opened(qm, "DEV.QUEUE.1", MQC.MQOO_INPUT_SHARED);
  const gmo = new mq.MQGMO();
  gmo.Options = MQC.MQGMO_NO_SYNCPOINT | MQC.MQGMO_WAIT | MQC.MQGMO_FAIL_IF_QUIESCING;
  gmo.WaitInterval = 300;
  const came = [];
  const finished = new Promise((resolve) => {
    mq.Get(queue, new mq.MQMD(), gmo, (error, _object, _gmo, _md, body) => {
      came.push(error ? error.mqrcstr : String(body));
      if (error) resolve();
    });
  });
  await control(qm, MQC.MQOP_START);
  const other = await connection();
  const sending = await opened(other, "DEV.QUEUE.1", MQC.MQOO_OUTPUT);
  for (let number = 0; number < 10; number += 1) await send(sending, `message ${number}`);
  await finished;
  mq.GetDone(queue, () => {});
  const expected = Array.from({ length: 10 }, (_, number) => `message ${number}`);
  assert.deepEqual(came, [...expected, "MQRC_NO_MSG_AVAILABLE"]);
  await disconnect(other);
  await disconnect(qm);
});
