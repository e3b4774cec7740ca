// A server on McpServer, the high-level interface of the TypeScript SDK, version 1.
// It is started in the directory where the version under test is installed.

import { createRequire } from "node:module";

import { host } from "./hosting_1.mjs";

const sdk = createRequire(`${process.cwd()}/`);
const { McpServer } = sdk("@modelcontextprotocol/sdk/server/mcp.js");
const { z } = sdk("zod");

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

let markEnded;
const aBlockEnded = new Promise((resolve) => { markEnded = resolve; });

const text = (said) => ({ content: [{ type: "text", text: said }] });
const report = async (extra, progress, total) => {
  const progressToken = extra._meta?.progressToken; // the earliest versions do not show it
  if (progressToken !== undefined) {
    await extra.sendNotification({ method: "notifications/progress", params: { progressToken, progress, total } });
  }
};

function makeServer() {
  const server = new McpServer({ name: "typescript high-level", version: "1" }, { capabilities: { logging: {} } });
  server.tool("add", { a: z.number(), b: z.number() }, async ({ a, b }) => text(String(a + b)));
  server.tool("picture", async () => ({
    content: [{ type: "text", text: "Look:" }, { type: "image", data: PNG, mimeType: "image/png" }],
  }));
  server.tool("fail", async () => {
    throw new Error("it failed, as it should");
  });
  server.tool("count", { to: z.number() }, async ({ to }, extra) => {
    for (let step = 1; step <= to; step++) {
      await server.server.sendLoggingMessage({ level: "info", logger: "count", data: `step ${step}` });
      await report(extra, step, to);
    }
    return text(`counted to ${to}`);
  });
  server.tool("block", async (extra) => {
    await report(extra, 1);
    await new Promise((resolve) => { extra.signal.addEventListener("abort", resolve); });
    markEnded();
    throw new Error("cancelled");
  });
  server.tool("ended", async () => {
    await aBlockEnded;
    return text("a block ended");
  });
  server.registerTool?.("measure", { outputSchema: { celsius: z.number() } }, async () => ({
    ...text('{"celsius": 21.5}'),
    structuredContent: { celsius: 21.5 },
  }));
  return server;
}

console.error("ready to serve");
await host(makeServer);
