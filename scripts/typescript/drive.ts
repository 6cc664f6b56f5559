// Makes calls through clients/typescript over both doors, whatever becomes of the
// connections. The one argument is JSON: Plan. What came of each call is written to
// stdout as JSON: a list of {intent, text, duplicate}.
import { readFileSync, writeFileSync } from "node:fs";
import { Client as Client2, StreamableHTTPClientTransport as Transport2 } from "@modelcontextprotocol/client";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { GaveUpError, Once, type KeyStore, type ToolCall } from "./client.js";

interface Plan {
  door: "sdk1" | "sdk2" | "fetch";
  url: string;
  token: string;
  keys: string; // the file in which keys are kept
  calls: number;
}

const plan = JSON.parse(process.argv[2]!) as Plan;

class FileKeys implements KeyStore {
  keep(intent: string, key: string): string {
    let kept: Record<string, string> = {};
    try {
      kept = JSON.parse(readFileSync(plan.keys, "utf8"));
    } catch {} // the first key
    kept[intent] ??= key;
    writeFileSync(plan.keys, JSON.stringify(kept));
    return kept[intent];
  }
}

const requestInit = { headers: { Authorization: `Bearer ${plan.token}` } };
const once = new Once({ keys: new FileKeys(), tries: 50, firstPause: 1, maxPause: 20, tryTimeout: 2_000 });

/**
 * A client that connects when it is first needed, and anew after any fault: at once, so
 * that the time of the next try is the call's alone.
 */
function reconnecting<C extends { close(): Promise<void> }>(connect: () => Promise<C>) {
  let client: C | undefined;
  return {
    async with<R>(use: (client: C) => Promise<R>): Promise<R> {
      client ??= await connect();
      try {
        return await use(client);
      } catch (error) {
        await client.close().catch(() => {});
        client = undefined;
        client = await connect();
        throw error;
      }
    },
    close: async () => client?.close().catch(() => {}),
  };
}

const sdk1 = reconnecting(async () => {
  const client = new Client1({ name: "drive", version: "1" });
  await client.connect(new Transport1(new URL(plan.url), { requestInit }));
  return client;
});
const sdk2 = reconnecting(async () => {
  const client = new Client2({ name: "drive", version: "1" }, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
  await client.connect(new Transport2(new URL(plan.url), { requestInit }));
  await client.listTools(); // results are checked against the tool's schema
  return client;
});

interface Outcome {
  intent: string;
  text: string;
  duplicate: unknown;
}

async function make(intent: string): Promise<Outcome> {
  if (plan.door === "fetch") {
    const answer = await once.fetch(intent, plan.url, { method: "POST", body: JSON.stringify({ guest: intent }), ...requestInit });
    return { intent, text: await answer.text(), duplicate: answer.headers.get("Idempotency-Replayed") === "true" };
  }
  const call: ToolCall = { name: "book", arguments: { guest: intent } };
  const result =
    plan.door === "sdk1"
      ? await once.callTool(intent, call, (call, signal) => sdk1.with((client) => client.callTool(call, undefined, signal ? { signal } : {})))
      : await once.callTool(intent, call, (call, signal) => sdk2.with((client) => client.callTool(call, signal ? { signal } : {})));
  const content = result.content as { text: string }[];
  return { intent, text: content[0]!.text, duplicate: result._meta?.["duplicate"] };
}

const outcomes: Outcome[] = [];
for (let i = 0; i < plan.calls; i++) {
  try {
    outcomes.push(await make(`guest ${i}`));
  } catch (error) {
    console.error(error instanceof GaveUpError ? error.cause : error);
    throw error;
  }
}
await sdk1.close();
await sdk2.close();
process.stdout.write(JSON.stringify(outcomes));
