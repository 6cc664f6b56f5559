// What clients/typescript does with each class of answer.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { GaveUpError, KeyError, MemoryKeys, Once, type ToolCall } from "./client.js";

const fast = { firstPause: 0 };
const name = "io.github.tooldedup/idempotency-key";
const toolError = (code?: string, more = {}) => ({ isError: true, _meta: code ? { "io.github.tooldedup/error": code, ...more } : {} });
const thrown = (fields: object) => Object.assign(new Error("thrown"), fields);

/** Calls a tool whose first try ends in one way, and says how many tries there were. */
async function tries(first: unknown): Promise<number> {
  const keys: unknown[] = [];
  const send = async (call: ToolCall) => {
    keys.push(call._meta?.[name]);
    if (keys.length > 1) return {};
    if (first instanceof Error) throw first;
    return first;
  };
  await new Once(fast).callTool("intent", { name: "book" }, send).catch((error) => assert.equal(error, first));
  assert.equal(new Set(keys).size, 1, "one key for all tries");
  return keys.length;
}

for (const [what, first, wanted] of [
  ["a result", { content: [] }, 1],
  ["a tool's own error", toolError(), 1],
  ["refused", toolError("refused"), 1],
  ["key_reused", toolError("key_reused"), 1],
  ["in flight", toolError("in_flight", { "io.github.tooldedup/retry-after": 0.001 }), 2],
  ["outcome unknown", toolError("outcome_unknown"), 2],
  ["unavailable", toolError("unavailable"), 2],
  ["timeout", toolError("timeout"), 2],
  ["an effect outside that goes on", { structuredContent: { status: "running" }, _meta: { "io.github.tooldedup/retry-after": 0.001 } }, 2],
  ["an effect outside that is parked", { structuredContent: { status: "parked" }, _meta: { "io.github.tooldedup/retry-after": 300 } }, 1],
  ["a tool's own status", { structuredContent: { status: "running" } }, 1],
  ["a cut connection", thrown({ code: "ECONNRESET" }), 2],
  ["an error of no kind", thrown({}), 2],
  ["a DOMException", new DOMException("late", "TimeoutError"), 2],
  ["invalid parameters", thrown({ code: -32602 }), 1],
  ["an internal error", thrown({ code: -32603 }), 2],
  ["the SDK's timeout", thrown({ code: -32001 }), 2],
  ["the SDK's closed connection", thrown({ code: -32000 }), 2],
  ["HTTP 502 of the first SDK", thrown({ code: 502 }), 2],
  ["HTTP 502 of the second SDK", thrown({ code: "CLIENT_HTTP_ERROR", status: 502 }), 2],
  ["HTTP 524 of a proxy", thrown({ code: 524 }), 2],
  ["HTTP 501", thrown({ code: 501 }), 1],
  ["an answer that the SDK cannot read", thrown({ code: -1 }), 2],
  ["HTTP 403", thrown({ code: 403 }), 1],
  ["a session that is gone", thrown({ code: 404 }), 2],
] as const) {
  test(what, async () => assert.equal(await tries(first), wanted));
}

test("HTTP statuses", async () => {
  let answer: { status: number; headers: Record<string, string> };
  const seen: unknown[] = [];
  const server = createServer((req, res) => {
    seen.push(req.headers["idempotency-key"]);
    const { status, headers } = seen.length > 1 ? { status: 200, headers: {} } : answer;
    res.writeHead(status, headers).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const now = { "Retry-After": "0" };
  const past = { "Retry-After": "Thu, 01 Jan 2026 00:00:00 GMT" };
  for (const [status, headers, wanted] of [
    [200, {}, 1], [204, {}, 1], [202, {}, 1], [202, now, 2], [400, {}, 1], [404, {}, 1], [409, {}, 1], [409, now, 2], [410, {}, 1], [422, now, 1],
    [408, {}, 2], [425, {}, 2], [429, past, 2], [500, {}, 2], [502, {}, 2], [503, now, 2], [504, {}, 2], [501, {}, 1], [520, {}, 2], [524, {}, 2],
  ] as const) {
    answer = { status, headers };
    seen.length = 0;
    const got = await new Once(fast).fetch("intent", url, { method: "POST", body: "{}" });
    assert.equal(seen.length, wanted, String(status));
    assert.equal(got.status, wanted > 1 ? 200 : status);
    assert.equal(new Set(seen).size, 1);
    assert.match(String(seen[0]), /^"[0-9a-f-]{36}"$/);
  }
  server.close();
});

test("a form has the same bytes with every try", async () => {
  const seen: string[] = [];
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk) => chunks.push(chunk)).on("end", () => {
      seen.push(`${req.headers["content-type"]}\n${Buffer.concat(chunks)}`);
      res.writeHead(seen.length > 1 ? 200 : 502).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const body = new FormData();
  body.set("guest", "Ada");
  await new Once(fast).fetch("intent", `http://127.0.0.1:${(server.address() as AddressInfo).port}`, { method: "POST", body });
  server.close();
  assert.equal(seen.length, 2);
  assert.equal(seen[0], seen[1]);
  assert.match(String(seen[0]), /^multipart\/form-data; boundary=(.+)\n--\1\r\n[^]*Ada/);
});

test("a pause may be longer than a timer can be", async () => {
  const stop = new AbortController();
  const send = async () => {
    setTimeout(() => stop.abort("enough"), 20);
    return toolError("in_flight", { "io.github.tooldedup/retry-after": 3e6 });
  };
  await assert.rejects(new Once(fast).callTool("intent", { name: "book" }, send, stop.signal), (error) => error instanceof GaveUpError && error.tries === 1);
});

test("the tries are used up", async () => {
  const once = new Once({ ...fast, tries: 4 });
  let sent = 0;
  const lost = new Error("lost");
  const send = async () => {
    sent++;
    throw lost;
  };
  await assert.rejects(once.callTool("intent", { name: "book" }, send), (error) => {
    assert(error instanceof GaveUpError);
    assert.equal(error.tries, 4);
    assert.equal(error.cause, lost);
    assert.match(error.key, /^[0-9a-f-]{36}$/);
    return true;
  });
  assert.equal(sent, 4);
});

test("the signal ends a pause", async () => {
  const stop = new AbortController();
  const send = async () => {
    queueMicrotask(() => stop.abort("enough"));
    throw new Error("lost");
  };
  const call = new Once({ firstPause: 1e9, maxPause: 1e9 }).callTool("intent", { name: "book" }, send, stop.signal);
  await assert.rejects(call, (error) => error instanceof GaveUpError && error.cause === "enough" && error.tries === 1);
});

test("keys are kept by intent, and another key is not sent", async () => {
  const keys = new MemoryKeys();
  const send = async (call: ToolCall) => call._meta?.[name];
  const first = await new Once({ keys }).callTool("a", { name: "book" }, send);
  assert.equal(await new Once({ keys }).callTool("a", { name: "book" }, send), first);
  assert.notEqual(await new Once({ keys }).callTool("b", { name: "book" }, send), first);
  await assert.rejects(new Once({ keys }).callTool("a", { name: "book", _meta: { [name]: "another" } }, send), KeyError);
  await assert.rejects(new Once().fetch("a", "http://127.0.0.1:1", { headers: { "Idempotency-Key": "another" } }), KeyError);
  await assert.rejects(new Once({ keys: { keep: () => "ключ" } }).fetch("a", "http://127.0.0.1:1"), KeyError);
  assert.throws(() => new Once().fetch("a", "http://127.0.0.1:1", { method: "POST", body: new ReadableStream() }), TypeError);
});
