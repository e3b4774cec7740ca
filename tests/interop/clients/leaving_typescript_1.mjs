// A client on the TypeScript SDK, version 1, that goes while a call is running:
// `leaving_typescript_1.mjs MARKER COMMAND…`, started in the directory where the SDK is installed.

import { createRequire } from "node:module";

const sdk = createRequire(`${process.cwd()}/`);
const { Client } = sdk("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = sdk("@modelcontextprotocol/sdk/client/stdio.js");

const [marker, command, ...args] = process.argv.slice(2);
const client = new Client({ name: "typescript 1", version: "1" }, { capabilities: {} });
await client.connect(new StdioClientTransport({ command, args }));

const onprogress = () => client.close();
await client
  .callTool({ name: "block", arguments: { marker } }, undefined, { onprogress })
  .catch((error) => console.log(JSON.stringify({ finding: "lost", value: error.message })));
