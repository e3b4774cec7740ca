// How every server on the TypeScript SDK, version 2, is reached: `program.mjs [TRANSPORT [OPTION…]]`, over stdio
// unless told otherwise. Clients of the legacy era are served with sessions, unless an option says `stateless`.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { Readable } from "node:stream";

const sdk = createRequire(`${process.cwd()}/`);
const { createMcpHandler, isLegacyRequest, WebStandardStreamableHTTPServerTransport } = sdk(
  "@modelcontextprotocol/server",
);
const { serveStdio } = sdk("@modelcontextprotocol/server/stdio");
const [transport = "stdio", ...options] = process.argv.slice(2);

// Tells clients of the modern era of changes over HTTP, where each request has a server of its own.
export let notify;

// From a request of Node.js to one of the web's, and back.
function toWeb(request, response) {
  const abort = new AbortController();
  response.on("close", () => { if (!response.writableFinished) abort.abort(); });
  const hasBody = request.method === "POST";
  return new Request(`http://${request.headers.host}${request.url}`, {
    method: request.method,
    headers: request.headers,
    signal: abort.signal,
    ...(hasBody && { body: Readable.toWeb(request), duplex: "half" }),
  });
}

async function answer(response, answered) {
  response.writeHead(answered.status, Object.fromEntries(answered.headers));
  response.flushHeaders();
  if (answered.body === null) {
    response.end();
  } else {
    const body = Readable.fromWeb(answered.body);
    response.on("close", () => body.destroy());
    body.on("error", () => response.destroy());
    body.pipe(response);
  }
}

// The way that the SDK's documentation shows: sessions of the legacy era beside what serves the modern one.
function hostStreamableHttp(makeServer, guard) {
  const isStateless = options.includes("stateless");
  const modern = createMcpHandler(makeServer, { legacy: isStateless ? "stateless" : "reject" });
  notify = modern.notify;
  const sessions = new Map();

  async function fetch(request) {
    const authInfo = await guard(request);
    if (authInfo instanceof Response) return authInfo;
    if (isStateless || !(await isLegacyRequest(request))) return modern.fetch(request, { authInfo });
    const known = request.headers.get("mcp-session-id");
    let session = sessions.get(known);
    if (known && session === undefined) return new Response(null, { status: 404 });
    if (session === undefined) {
      session = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => { sessions.set(id, session); },
        onsessionclosed: (id) => { sessions.delete(id); },
      });
      await makeServer().connect(session);
    }
    return session.handleRequest(request, { authInfo });
  }

  return async (request, response) => answer(response, await fetch(toWeb(request, response)));
}

// The guard returns who sends a request, or the answer for somebody who may not. Returns what listens, if anything does.
export function host(makeServer, guard = async () => undefined) {
  if (transport === "stdio") {
    serveStdio(makeServer);
    return undefined;
  }
  return createServer(hostStreamableHttp(makeServer, guard)).listen(0, "127.0.0.1");
}
