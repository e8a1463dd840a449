/* Receives webhooks and verifies them. Reads one secret per line from stdin; prints the port, then each result, as JSON. */

import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Webhook } from "standardwebhooks";

let webhook = null;

const server = createServer((request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks).toString("utf8");
    const result = { headers: request.headers, method: request.method };
    try {
      result.event = webhook.verify(body, request.headers);
    } catch (error) {
      result.error = String(error.message);
    }
    console.log(JSON.stringify(result));
    response.writeHead(result.error ? 401 : 204).end();
  });
});

createInterface({ input: process.stdin }).on("line", (secret) => {
  webhook = new Webhook(secret);
  console.log(JSON.stringify({ ready: true }));
});
server.listen(0, "127.0.0.1", () => console.log(JSON.stringify({ port: server.address().port })));
