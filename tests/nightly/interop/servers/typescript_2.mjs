// A server on the TypeScript SDK, version 2, which serves both eras.
// It is started in the directory where the version under test is installed.

import { createRequire } from "node:module";

import { host } from "./hosting_2.mjs";

const sdk = createRequire(`${process.cwd()}/`);
const { McpServer } = sdk("@modelcontextprotocol/server");
const { z } = sdk("zod");

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

let markEnded;
const aBlockEnded = new Promise((resolve) => { markEnded = resolve; });

const text = (said) => ({ content: [{ type: "text", text: said }] });
const report = async (context, progress, total) => {
  const progressToken = context.mcpReq._meta?.progressToken;
  if (progressToken !== undefined) {
    await context.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total } });
  }
};

function makeServer() {
  const server = new McpServer({ name: "typescript 2", version: "1" }, { capabilities: { logging: {} } });
  const add = z.object({ a: z.number(), b: z.number() });
  server.registerTool("add", { inputSchema: add }, async ({ a, b }) => text(String(a + b)));
  server.registerTool("picture", {}, async () => ({
    content: [{ type: "text", text: "Look:" }, { type: "image", data: PNG, mimeType: "image/png" }],
  }));
  server.registerTool("fail", {}, async () => {
    throw new Error("it failed, as it should");
  });
  server.registerTool("count", { inputSchema: z.object({ to: z.number() }) }, async ({ to }, context) => {
    for (let step = 1; step <= to; step++) {
      await context.mcpReq.log("info", `step ${step}`, "count");
      await report(context, step, to);
    }
    return text(`counted to ${to}`);
  });
  server.registerTool("block", {}, async (context) => {
    await report(context, 1);
    await new Promise((resolve) => { context.mcpReq.signal.addEventListener("abort", resolve); });
    markEnded();
    throw new Error("cancelled");
  });
  server.registerTool("ended", {}, async () => {
    await aBlockEnded;
    return text("a block ended");
  });
  server.registerTool("measure", { outputSchema: z.object({ celsius: z.number() }) }, async () => ({
    ...text('{"celsius": 21.5}'),
    structuredContent: { celsius: 21.5 },
  }));
  return server;
}

console.error("ready to serve");
host(makeServer);
