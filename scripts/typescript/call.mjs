// Calls a tool of an MCP server with the TypeScript SDK, loses the answer, and
// calls again in a new session with the same key. The one argument is JSON:
//   {"url", "token"} for streamable HTTP, {"command", "env"} and {"command", "again"}
//   for stdio, "again" being the environment of the second process; and the calls:
//   {"tool", "arguments"}.
// What happened is written to stdout as JSON: {"tools", "first", "second"}.
// With "sdk": 2 it does so with the SDK's second version and MCP 2026-07-28.
// With "calls", a list of {"tool", "arguments"}, it makes these in one session, and
// writes {"tools", "answers"}.
import { Client as Client2, StreamableHTTPClientTransport as HTTP2 } from "@modelcontextprotocol/client";
import { StdioClientTransport as Stdio2 } from "@modelcontextprotocol/client/stdio";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const plan = JSON.parse(process.argv[2]);

const second = plan.sdk === 2;

async function connect(env) {
  const info = { name: "typescript", version: "1" };
  const client = second ? new Client2(info, { versionNegotiation: { mode: { pin: "2026-07-28" } } }) : new Client(info);
  const [HTTP, Stdio] = second ? [HTTP2, Stdio2] : [StreamableHTTPClientTransport, StdioClientTransport];
  const transport = plan.url
    ? new HTTP(new URL(plan.url), { requestInit: { headers: { Authorization: `Bearer ${plan.token}` } } })
    : new Stdio({ command: plan.command, env: { ...process.env, ...env } });
  await client.connect(transport);
  return client;
}

async function answer(client, { tool, arguments: args }) {
  const call = { name: tool, arguments: args };
  const options = { timeout: 30_000 };
  try {
    return { result: await (second ? client.callTool(call, options) : client.callTool(call, undefined, options)) };
  } catch (err) {
    return { error: String(err) };
  }
}

// The SDK checks results against the tool's output schema once it has listed the
// tools.
async function call(client) {
  const { tools } = await client.listTools();
  const got = await answer(client, plan);
  await client.close().catch(() => {}); // it may be gone already
  return { tools, ...got };
}

if (plan.calls) {
  const client = await connect(plan.env);
  const { tools } = await client.listTools();
  const answers = [];
  for (const one of plan.calls) answers.push(await answer(client, one));
  await client.close();
  process.stdout.write(JSON.stringify({ tools, answers }));
} else {
  const first = await call(await connect(plan.env));
  const second = await call(await connect(plan.again));
  process.stdout.write(JSON.stringify({ tools: second.tools, first, second }));
}
