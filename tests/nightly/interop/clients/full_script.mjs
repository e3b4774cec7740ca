// What every client in JavaScript does with `full_server.py`, and what its user answers; findings are lines of JSON.
// `STEPS` in the environment names the steps to take, if not all of them.

import { existsSync } from "node:fs";

const CHOSEN = process.env.STEPS?.split(" ");
const PATIENCE = 10_000; // milliseconds for one step, which takes some
const CHANGES = {
  "notifications/tools/list_changed": "tools",
  "notifications/prompts/list_changed": "prompts",
  "notifications/resources/list_changed": "resources",
};
const VALUES = {
  "First?": "one",
  "Second, after one?": "two",
  "Well?": "well",
  "The word?": "sesame",
  "Your name?": "Ada",
};

export const found = (finding, value) => console.log(JSON.stringify({ finding, value }));
const pause = (duration) => new Promise((resolve) => { setTimeout(resolve, duration); });

async function waitUntil(condition, patience = PATIENCE) {
  const end = Date.now() + patience;
  while (!condition() && Date.now() < end) await pause(10);
}

// Answers what the server asks, and remembers what was said to it.
export class User {
  roots = [{ uri: "file:///first", name: "first" }];
  bookings = [
    { action: "accept", content: { name: "Ada", nights: 2, room: "double" } },
    { action: "decline" },
    { action: "cancel" },
  ];
  questions = {};
  logged = [];
  changed = [];
  updated = [];
  completed = [];
  isWaiting = false;
  wasCancelled = false;
  mayAnswer = false;

  sample(params) {
    this.questions.sample = params;
    const said = params.messages.at(-1).content;
    const last = Array.isArray(said) ? said[0] : said;
    const answer = { role: "assistant", model: "scripted", stopReason: "endTurn" };
    if (last.type === "tool_result") {
      return { ...answer, content: { type: "text", text: `It is ${last.content[0].text} warm.` } };
    }
    if (params.tools) {
      const use = { type: "tool_use", id: "use-1", name: "weather", input: { city: "Kyiv" } };
      return { ...answer, content: [use], stopReason: "toolUse" };
    }
    return { ...answer, content: { type: "text", text: `heard ${last.text}` } };
  }

  async elicit(params, signal) {
    const { message } = params;
    this.questions[message] = params;
    if (message === "Your booking, please.") return this.bookings.shift();
    if (message === "On your pizza?") return { action: "accept", content: { toppings: ["basil", "olives"] } };
    if (message === "Please pay." || message === "Please pay first.") return { action: "accept" };
    if (message === "In vain?") {
      this.isWaiting = true;
      signal?.addEventListener("abort", () => { this.wasCancelled = true; });
      await waitUntil(() => this.mayAnswer);
      return { action: "accept", content: { value: "too late" } };
    }
    return { action: "accept", content: { value: VALUES[message] } };
  }

  listRoots() {
    return { roots: this.roots };
  }

  notified(method, params) {
    if (method in CHANGES) this.changed.push(CHANGES[method]);
    if (method === "notifications/resources/updated") this.updated.push(params.uri);
    if (method === "notifications/elicitation/complete") this.completed.push(params.elicitationId);
    if (method === "notifications/message") this.logged.push([params.level, params.logger ?? null, params.data]);
  }
}

// Takes the steps, each whatever has become of those before it.
// The client is an SDK's; `callTool(name, arguments, options)`, `setLogLevel(level)` and `listen(uri)` differ.
export async function run(client, { revision, callTool, setLogLevel, listen }, user, marker) {
  const isModern = revision >= "2026";

  async function step(name, act) {
    if (CHOSEN && !CHOSEN.includes(name)) return;
    let timer;
    const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error("too late")), PATIENCE); });
    try {
      found(name, await Promise.race([act(), late]));
    } catch (error) {
      found(name, { refused: error.code ?? error.name, message: error.message, data: error.data ?? null });
    } finally {
      clearTimeout(timer);
    }
  }
  const call = (name, given = {}) => callTool(name, given);

  async function list(ask, key) {
    const items = [];
    let cursor;
    do {
      const page = await ask.call(client, cursor === undefined ? undefined : { cursor });
      items.push(...page[key]);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return items;
  }

  async function followProgress() {
    const seen = [];
    const onprogress = ({ progress, total, message }) => {
      seen.push([progress, total, message ?? null]);
      call("proceed");
    };
    await callTool("steps", {}, { onprogress });
    return seen;
  }

  async function giveUp() {
    const abort = new AbortController();
    const onprogress = () => abort.abort("enough");
    await callTool("steps", {}, { onprogress, signal: abort.signal }).catch(() => {});
    return call("primes");
  }

  async function log() {
    await setLogLevel("warning");
    await call("log_all");
    await waitUntil(() => user.logged.at(-1)?.[2] === "disk full");
    return user.logged;
  }

  async function makeChanges() {
    await call("touch", { uri: "notes://both" }); // of which nobody wanted to know
    await call("touch", { uri: "notes://today" });
    await waitUntil(() => user.updated.length);
    await call("change_lists");
    await waitUntil(() => user.changed.length >= 3);
  }

  async function followChanges() {
    const uri = "notes://today";
    const subscription = isModern ? await listen(uri) : await client.subscribeResource({ uri });
    await makeChanges();
    await (isModern ? subscription.close() : client.unsubscribeResource({ uri }));
    await call("touch", { uri });
    await call("primes"); // what was said before this is here
    return user.updated;
  }

  async function askInVain() {
    const abort = new AbortController();
    let hasEnded = false;
    const asking = callTool("ask_in_vain", { marker }, { signal: abort.signal });
    const ended = asking.catch(() => {}).then(() => { hasEnded = true; });
    await waitUntil(() => user.isWaiting || hasEnded);
    if (hasEnded) return asking; // refused
    abort.abort("enough");
    if (!isModern) await waitUntil(() => existsSync(marker)); // later, the server waits for the answer until it ends
    await waitUntil(() => user.wasCancelled && hasEnded, 1000);
    const findings = { asked: user.wasCancelled, handler: existsSync(marker), caller: hasEnded };
    user.mayAnswer = true;
    await ended;
    await call("primes");
    return findings;
  }

  async function changeRoots() {
    user.roots.push({ uri: "file:///second" });
    await client.sendRootsListChanged();
    return call("where_next");
  }

  found("agreed", revision);
  await step("tools", () => list(client.listTools, "tools"));
  await step("weather", () => call("weather", { city: "Kyiv", country: "UA" }));
  for (const name of ["primes", "contents", "broken"]) await step(name, () => call(name));
  await step("wrong", () => call("weather", { city: "" }));
  await step("steps", followProgress);
  await step("given_up", giveUp);
  await step("log", log);
  await step("resources", () => list(client.listResources, "resources"));
  await step("templates", () => list(client.listResourceTemplates, "resourceTemplates"));
  for (const [name, uri] of [
    ["read_text", "notes://today"],
    ["read_binary", "notes://picture.png"],
    ["read_both", "notes://both"],
    ["read_template", "notes://orwell/animal%20farm"],
    ["read_missing", "notes://lem/nothing"],
    ["read_asking", "notes://diary"],
  ]) await step(name, () => client.readResource({ uri }));
  await step("prompts", () => list(client.listPrompts, "prompts"));
  await step("greet", () => client.getPrompt({ name: "greet" }));
  const review = (tone) => client.getPrompt({ name: "review", arguments: { title: "Solaris", tone } });
  await step("review", () => review("honest"));
  await step("personal", () => client.getPrompt({ name: "personal", arguments: {} }));
  await step("prompt_wrong", () => review("loud"));
  const template = { type: "ref/resource", uri: "notes://{author}/{title}" };
  for (const [name, ref, argument, value, given] of [
    ["complete_prompt", { type: "ref/prompt", name: "review" }, "tone", "h"],
    ["complete_template", template, "author", "o"],
    ["complete_context", template, "title", "", { author: "lem" }],
  ]) {
    const context = given && { arguments: given };
    await step(name, () => client.complete({ ref, argument: { name: argument, value }, context }));
  }
  await step("summarise", () => call("summarise", { text: "a long text" }));
  found("summarise_question", user.questions.sample ?? null);
  await step("research", () => call("research"));
  for (const name of ["book", "book_declined", "book_cancelled"]) await step(name, () => call("book"));
  found("book_question", user.questions["Your booking, please."] ?? null);
  await step("pizza", () => call("pizza"));
  await step("pay", () => call("pay"));
  found("pay_question", user.questions["Please pay."] ?? null);
  found("pay_completed", user.completed);
  await step("pay_first", () => call("pay_first"));
  await step("where", () => call("where"));
  if (!isModern) await step("where_next", changeRoots);
  await step("wizard", () => call("wizard"));
  await step("ask_all", () => call("ask_all"));
  await step("updates", followChanges);
  found("changes", user.changed.sort());
  await step("ask_in_vain", askInVain);
}
