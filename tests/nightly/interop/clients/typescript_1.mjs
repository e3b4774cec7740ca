// A client on the TypeScript SDK, version 1: `typescript_1.mjs MARKER URL|COMMAND…`; says what it found, a line of JSON
// each. It is started in the directory where the version under test is installed.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";

const sdk = createRequire(`${process.cwd()}/`);
const { Client } = sdk("@modelcontextprotocol/sdk/client/index.js");
const types = sdk("@modelcontextprotocol/sdk/types.js");

function reach(target, ...args) {
  if (target.endsWith("/sse")) {
    const { SSEClientTransport } = sdk("@modelcontextprotocol/sdk/client/sse.js");
    return new SSEClientTransport(new URL(target));
  }
  if (target.startsWith("http:")) {
    const { StreamableHTTPClientTransport } = sdk("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return new StreamableHTTPClientTransport(new URL(target));
  }
  const { StdioClientTransport } = sdk("@modelcontextprotocol/sdk/client/stdio.js");
  return new StdioClientTransport({ command: target, args });
}

const found = (finding, value) => console.log(JSON.stringify({ finding, value }));
const [marker, ...server] = process.argv.slice(2);
const client = new Client({ name: "typescript 1", version: "1" }, { capabilities: {} });
const transport = reach(...server);

let revision;
const logged = [];
let markLogged;
const bothLogged = new Promise((resolve) => { markLogged = resolve; });
client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => {
  logged.push(params.data);
  if (logged.slice(-2).join() === "one,two") markLogged();
});

async function call(finding, name, given, options) {
  const result = await client.callTool({ name, arguments: given }, undefined, options);
  const text = result.content.map((block) => block.text).join("");
  found(finding, { error: result.isError ?? false, text, structured: result.structuredContent ?? null });
}

// What was agreed on is not shown by every version, so it is looked up where it arrives.
const start = transport.start.bind(transport);
transport.start = async () => {
  const onmessage = transport.onmessage;
  transport.onmessage = (message, extra) => {
    revision ??= message.result?.protocolVersion;
    onmessage(message, extra);
  };
  await start();
};

await client.connect(transport);
found("agreed", { revision, server: client.getServerVersion().name });
found("tools", (await client.listTools()).tools.map((tool) => tool.name));
await client.ping();
await call("add", "add", { a: 1, b: 2 });
await call("sync_add", "sync_add", { a: 1, b: 2 });
await call("echo", "echo", { text: "Grüße, 世界 🌍 \u2028 \n" });
await call("structured", "structured", { place: "Berlin" });
await call("divide", "divide", { a: 1, b: 0 });
await call("fail", "fail", {});
await call("wrong", "add", { a: "one", b: 2 });
await call("noisy", "noisy", {});
const big = "x".repeat(3_000_000);
const echoed = await client.callTool({ name: "echo", arguments: { text: big } });
found("big", echoed.content[0].text === big);
const numbers = [...Array(50).keys()];
const sums = numbers.map((number) => client.callTool({ name: "add", arguments: { a: number, b: number } }));
found("crowd", (await Promise.all(sums)).map((result) => result.content[0].text));
await client.callTool({ name: "nonsense", arguments: {} }).catch((error) => found("unknown", error.code));

const progress = [];
const onprogress = ({ progress: value, total, message }) => {
  progress.push([value, total, message ?? null]);
  client.callTool({ name: "proceed", arguments: {} });
};
await client.callTool({ name: "slow", arguments: { steps: 3 } }, undefined, { onprogress });
found("progress", progress);

await client.setLoggingLevel("info");
await call("log", "log", { words: ["one", "two"] });
await bothLogged;
found("logged", logged);

const abort = new AbortController();
const options = { signal: abort.signal, onprogress: () => abort.abort("enough") };
await client.callTool({ name: "block", arguments: { marker } }, undefined, options).catch(() => {});
await call("after", "add", { a: 20, b: 22 });
// The goodbye comes first, but handlers end at their own pace; and over HTTP it travels beside the call after it.
for (let turn = 0; turn < 500 && !existsSync(marker); turn++) {
  await new Promise((resolve) => { setTimeout(resolve, 10); });
}
found("cancelled", existsSync(marker));
await client.close();
found("closed", true);
