// A client on the TypeScript SDK, version 1, that goes while a call is running:
// `leaving_typescript_1.mjs MARKER URL|COMMAND…`, started in the directory where the SDK is installed.

import { createRequire } from "node:module";

const sdk = createRequire(`${process.cwd()}/`);
const { Client } = sdk("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = sdk("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = sdk("@modelcontextprotocol/sdk/client/streamableHttp.js");

const [marker, target, ...args] = process.argv.slice(2);
const client = new Client({ name: "typescript 1", version: "1" }, { capabilities: {} });
const transport = args.length
  ? new StdioClientTransport({ command: target, args })
  : new StreamableHTTPClientTransport(new URL(target));
await client.connect(transport);

const onprogress = () => client.close();
await client
  .callTool({ name: "block", arguments: { marker } }, undefined, { onprogress })
  .catch((error) => console.log(JSON.stringify({ finding: "lost", value: error.message })));
