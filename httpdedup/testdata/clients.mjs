// Sends requests with one of Node's clients, one after the other, and prints the answers as
// JSON. The requests are JSON on standard input: {url, client, requests: [{method, target,
// host, headers: [[name, value]], body, framing}]}. body is base64; framing is "length",
// "chunked", "pieces" (chunked, a byte at a time) or "none". What a client cannot send is
// answered with {error}.
import http from "node:http";
import http2 from "node:http2";

let input = "";
for await (const piece of process.stdin) input += piece;
const { url, client, requests } = JSON.parse(input);
const origin = new URL(url);

// pieces are what is written of a body.
function pieces({ body, framing }) {
  const bytes = Buffer.from(body ?? "", "base64");
  if (framing === "pieces") return [...bytes].map((b) => Buffer.from([b]));
  return bytes.length ? [bytes] : [];
}

// named are headers as Node takes them: several of one name as a list.
function named(headers) {
  const all = {};
  for (const [name, value] of headers) {
    if (name in all) all[name] = [].concat(all[name], value);
    else all[name] = value;
  }
  return all;
}

function collect(stream, resolve, answer) {
  const body = [];
  stream.on("data", (piece) => body.push(piece));
  stream.on("end", () => resolve({ ...answer(), body: Buffer.concat(body).toString() }));
}

function overHTTP(request) {
  return new Promise((resolve, reject) => {
    const headers = named(request.headers);
    if (request.host) headers.Host = request.host;
    if (request.framing === "length") headers["Content-Length"] = Buffer.from(request.body ?? "", "base64").length;
    if (request.framing === "chunked" || request.framing === "pieces") headers["Transfer-Encoding"] = "chunked";
    const req = http.request({ host: origin.hostname, port: origin.port, method: request.method, path: request.target, headers }, (res) =>
      collect(res, resolve, () => ({ status: res.statusCode, replayed: res.headers["idempotency-replayed"] ?? "" })));
    req.on("error", reject);
    for (const piece of pieces(request)) req.write(piece);
    req.end();
  });
}

function overHTTP2(session, request) {
  return new Promise((resolve, reject) => {
    const headers = named(request.headers.map(([name, value]) => [name.toLowerCase(), value]));
    headers[":method"] = request.method;
    headers[":path"] = request.target;
    headers[":authority"] = request.host || origin.host;
    if (request.framing === "length") headers["content-length"] = Buffer.from(request.body ?? "", "base64").length;
    const req = session.request(headers, { endStream: request.framing === "none" });
    let status, replayed;
    req.on("response", (head) => {
      status = head[":status"];
      replayed = head["idempotency-replayed"] ?? "";
    });
    req.on("error", reject);
    collect(req, resolve, () => ({ status, replayed }));
    if (request.framing !== "none") {
      for (const piece of pieces(request)) req.write(piece);
      req.end();
    }
  });
}

async function byFetch(request) {
  const target = new URL(request.target, origin);
  if (target.pathname + target.search !== request.target) return { error: "fetch spells the target in its own way" };
  if (request.host) return { error: "fetch chooses the host" };
  const headers = new Headers();
  for (const [name, value] of request.headers) headers.append(name, value);
  const init = { method: request.method, headers };
  if (request.framing === "length") init.body = Buffer.from(request.body ?? "", "base64");
  if (request.framing === "chunked" || request.framing === "pieces") {
    const rest = pieces(request);
    init.duplex = "half";
    init.body = new ReadableStream({ pull(stream) { rest.length ? stream.enqueue(rest.shift()) : stream.close(); } });
  }
  const res = await fetch(target, init);
  return { status: res.status, replayed: res.headers.get("idempotency-replayed") ?? "", body: await res.text() };
}

const session = client === "http2" ? http2.connect(url) : undefined;
const answers = [];
for (const request of requests) {
  try {
    if (client === "http") answers.push(await overHTTP(request));
    else if (client === "http2") answers.push(await overHTTP2(session, request));
    else answers.push(await byFetch(request));
  } catch (e) {
    answers.push({ error: String(e.cause ?? e) });
  }
}
session?.close();
console.log(JSON.stringify(answers));
process.exit(0);
