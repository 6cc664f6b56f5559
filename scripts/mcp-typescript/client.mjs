// Calls a tool of an MCP server with the TypeScript SDK, loses the answer, and
// calls again in a new session with the same key. The one argument is JSON:
//   {"url", "token"} for streamable HTTP, {"command", "env"} and {"command", "again"}
//   for stdio, "again" being the environment of the second process; and the calls:
//   {"tool", "arguments"}.
// What happened is written to stdout as JSON: {"tools", "first", "second"}.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const plan = JSON.parse(process.argv[2]);

async function connect(env) {
  const client = new Client({ name: "typescript", version: "1" });
  const transport = plan.url
    ? new StreamableHTTPClientTransport(new URL(plan.url), {
        requestInit: { headers: { Authorization: `Bearer ${plan.token}` } },
      })
    : new StdioClientTransport({ command: plan.command, env: { ...process.env, ...env } });
  await client.connect(transport);
  return client;
}

// The SDK checks results against the tool's output schema once it has listed the
// tools.
async function call(client) {
  const { tools } = await client.listTools();
  try {
    return { tools, result: await client.callTool({ name: plan.tool, arguments: plan.arguments }, undefined, { timeout: 30_000 }) };
  } catch (err) {
    return { tools, error: String(err) };
  } finally {
    await client.close().catch(() => {}); // it may be gone already
  }
}

const first = await call(await connect(plan.env));
const second = await call(await connect(plan.again));
process.stdout.write(JSON.stringify({ tools: second.tools, first, second }));
