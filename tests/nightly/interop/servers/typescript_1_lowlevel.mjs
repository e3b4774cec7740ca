// A server on the low-level interface of the TypeScript SDK, version 1.
// It is started in the directory where the version under test is installed.

import { createRequire } from "node:module";

import { host } from "./hosting_1.mjs";

const sdk = createRequire(`${process.cwd()}/`);
const { Server } = sdk("@modelcontextprotocol/sdk/server/index.js");
const types = sdk("@modelcontextprotocol/sdk/types.js");

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const PAGE_SIZE = 3;

let markEnded;
const aBlockEnded = new Promise((resolve) => { markEnded = resolve; });

const tool = (name, properties, output) => ({
  name,
  description: `The tool ${name}`,
  inputSchema: { type: "object", properties },
  ...(output && { outputSchema: output }),
});
const TOOLS = [
  tool("add", { a: { type: "integer" }, b: { type: "integer" } }),
  tool("picture", {}),
  tool("fail", {}),
  tool("count", { to: { type: "integer" } }),
  tool("block", {}),
  tool("ended", {}),
];
const hasStructured = "outputSchema" in types.ToolSchema.shape;
if (hasStructured) {
  TOOLS.push(tool("measure", {}, { type: "object", properties: { celsius: { type: "number" } } }));
}

const text = (said, extra) => ({ content: [{ type: "text", text: said }], ...extra });

function makeServer() {
  const server = new Server({ name: "typescript low-level", version: "1" }, { capabilities: { tools: {}, logging: {} } });
  server.setRequestHandler(types.ListToolsRequestSchema, async (request) => {
    const start = Number(request.params?.cursor ?? 0);
    const after = start + PAGE_SIZE;
    return { tools: TOOLS.slice(start, after), ...(after < TOOLS.length && { nextCursor: String(after) }) };
  });

  server.setRequestHandler(types.CallToolRequestSchema, async ({ params }, { signal, sendNotification }) => {
    const args = params.arguments ?? {};
    const report = async (progress, total) => {
      const progressToken = params._meta?.progressToken;
      if (progressToken !== undefined) {
        const notify = sendNotification ?? ((notification) => server.notification(notification)); // of old
        await notify({ method: "notifications/progress", params: { progressToken, progress, total } });
      }
    };
    switch (params.name) {
      case "add":
        return text(String(args.a + args.b));
      case "picture":
        return { content: [{ type: "text", text: "Look:" }, { type: "image", data: PNG, mimeType: "image/png" }] };
      case "fail":
        return text("it failed, as it should", { isError: true });
      case "count":
        for (let step = 1; step <= args.to; step++) {
          await server.sendLoggingMessage({ level: "info", logger: "count", data: `step ${step}` });
          await report(step, args.to);
        }
        return text(`counted to ${args.to}`);
      case "block":
        await report(1);
        await new Promise((resolve) => { signal.addEventListener("abort", resolve); });
        markEnded();
        throw new Error("cancelled");
      case "ended":
        await aBlockEnded;
        return text("a block ended");
      case "measure":
        if (hasStructured) return text('{"celsius": 21.5}', { structuredContent: { celsius: 21.5 } });
    }
    throw new types.McpError(types.ErrorCode.InvalidParams, `Unknown tool: ${params.name}`);
  });

  // Newer versions do this by themselves.
  server.setRequestHandler(types.SetLevelRequestSchema, async () => ({}));
  return server;
}

console.error("ready to serve");
await host(makeServer);
