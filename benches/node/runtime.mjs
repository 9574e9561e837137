// The loop of a Lambda runtime and no more: loads the handler, then polls. AWS's own (aws-lambda-ric) needs a compiler
// and CMake to install, and does more at start than this.

import { Agent, request } from "node:http";

const { handler } = await import(process.env.HANDLER_MODULE ?? "./handler.mjs");
const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(":");
const agent = new Agent({ keepAlive: true, maxSockets: 1 });

function call(method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    const sent = request({ host, port, method, path: `/2018-06-01/runtime/invocation/${path}`, agent, headers }, (response) => {
      const chunks = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => resolve({ headers: response.headers, body: Buffer.concat(chunks).toString() }));
      response.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

for (;;) {
  const event = await call("GET", "next");
  const id = event.headers["lambda-runtime-aws-request-id"];
  try {
    await call("POST", `${id}/response`, JSON.stringify(await handler(JSON.parse(event.body))));
  } catch (error) {
    await call("POST", `${id}/error`, JSON.stringify({ errorType: error.name, errorMessage: error.message }));
  }
}
