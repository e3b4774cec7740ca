// Log in with the TypeScript SDK, version 2: `logging_in_typescript_2.mjs MODE URL`. Prints what the server has said, as
// JSON. It is started in the directory where the version under test is installed.

import { createRequire } from "node:module";

const sdk = createRequire(`${process.cwd()}/`);
const { Client, StreamableHTTPClientTransport } = sdk("@modelcontextprotocol/client");

const [mode, url] = process.argv.slice(2);
let back;
let pages = 0;
const kept = {};
const authProvider = {
  redirectUrl: "http://127.0.0.1:3000/callback",
  clientMetadata: { client_name: "theirs", redirect_uris: ["http://127.0.0.1:3000/callback"] },
  state: () => "a-state-of-ours",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  saveCodeVerifier: (verifier) => { kept.verifier = verifier; },
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => { kept.discovery = state; },
  discoveryState: () => kept.discovery,
  async redirectToAuthorization(page) {
    pages += 1;
    back = new URL((await fetch(page, { redirect: "manual" })).headers.get("location"));
  },
};

let client;
let transport;
// A login needs a person, so what was asked for fails, and is asked for again after the login.
async function loggingIn(ask) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      if (!back || attempt > 3) throw error;
      const found = back;
      back = undefined;
      await transport.finishAuth(found.searchParams);
    }
  }
}

async function connect() {
  transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  client = new Client({ name: "theirs", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(transport);
}

const text = (result) => result.content[0].text;
await loggingIn(connect);
const who = text(await client.callTool({ name: "whoami", arguments: {} }));
const order = text(await loggingIn(() => client.callTool({ name: "order", arguments: { title: "Dune" } })));
const tools = (await client.listTools()).tools.map((tool) => tool.name);
console.log(JSON.stringify({ revision: client.getNegotiatedProtocolVersion(), who, order, tools, pages }));
await client.close();
