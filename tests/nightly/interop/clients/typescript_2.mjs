// A client on the TypeScript SDK, version 2: `typescript_2.mjs MODE MARKER URL|COMMAND…`; says what it found, a line of
// JSON each. It is started in the directory where the version under test is installed.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";

const sdk = createRequire(`${process.cwd()}/`);
const { Client, SSEClientTransport, StreamableHTTPClientTransport } = sdk("@modelcontextprotocol/client");
const { StdioClientTransport } = sdk("@modelcontextprotocol/client/stdio");

function reach(target, ...args) {
  if (target.endsWith("/sse")) return new SSEClientTransport(new URL(target));
  if (target.startsWith("http:")) return new StreamableHTTPClientTransport(new URL(target));
  return new StdioClientTransport({ command: target, args });
}

const found = (finding, value) => console.log(JSON.stringify({ finding, value }));
const [mode, marker, ...server] = process.argv.slice(2);
const versionNegotiation = { mode: mode === "auto" || mode === "legacy" ? mode : { pin: mode } };
const client = new Client({ name: "typescript 2", version: "1" }, { versionNegotiation });

const logged = [];
let markLogged;
const bothLogged = new Promise((resolve) => { markLogged = resolve; });
client.setNotificationHandler("notifications/message", ({ params }) => {
  logged.push(params.data);
  if (logged.slice(-2).join() === "one,two") markLogged();
});

async function call(finding, name, given, more) {
  const result = await client.callTool({ name, arguments: given, ...more });
  const text = result.content.map((block) => block.text).join("");
  found(finding, { error: result.isError ?? false, text, structured: result.structuredContent ?? null });
}

await client.connect(reach(...server));
found("agreed", { revision: client.getNegotiatedProtocolVersion(), server: client.getServerVersion()?.name });
found("tools", (await client.listTools()).tools.map((tool) => tool.name));
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
await client.callTool({ name: "slow", arguments: { steps: 3 } }, { onprogress });
found("progress", progress);

if (client.getProtocolEra() === "modern") {
  await call("log", "log", { words: ["one", "two"] }, { _meta: { "io.modelcontextprotocol/logLevel": "info" } });
} else {
  await client.setLoggingLevel("info");
  await call("log", "log", { words: ["one", "two"] });
}
await bothLogged;
found("logged", logged);

const abort = new AbortController();
const options = { signal: abort.signal, onprogress: () => abort.abort("enough") };
await client.callTool({ name: "block", arguments: { marker } }, options).catch(() => {});
await call("after", "add", { a: 20, b: 22 });
// The goodbye comes first, but handlers end at their own pace; and over HTTP it travels beside the call after it.
for (let turn = 0; turn < 500 && !existsSync(marker); turn++) {
  await new Promise((resolve) => { setTimeout(resolve, 10); });
}
found("cancelled", existsSync(marker));
await client.close();
found("closed", true);
