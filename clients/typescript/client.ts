// Calls tools that take effect once. The other side makes one effect of all calls with
// one key: mcpdedup and httpdedup do, and so does every server that honours
// Idempotency-Key. This side makes the key before the first try, keeps it, sends it with
// every try, and tries again what was not answered.

/** Where keys are kept, so that a program that was restarted sends the same ones. */
export interface KeyStore {
  /**
   * Keeps a key for an intent, unless there is one already, and returns the one that is
   * kept. In SQL: INSERT … ON CONFLICT DO NOTHING, and then SELECT. What it throws ends
   * the call before anything is sent.
   */
  keep(intent: string, key: string): string | Promise<string>;
}

/** Keeps keys for as long as the program runs. */
export class MemoryKeys implements KeyStore {
  private readonly keys = new Map<string, string>();

  keep(intent: string, key: string): string {
    const kept = this.keys.get(intent) ?? key;
    this.keys.set(intent, kept);
    return kept;
  }
}

/** What a client may choose. */
export interface Options {
  /** Where keys are kept. Default: in memory. */
  keys?: KeyStore;
  /** The most tries of a call, the first included. Default 3. */
  tries?: number;
  /** The longest that the first pause may be, in milliseconds. Each further one may be
   * twice as long. It is drawn evenly from nothing to that, and comes on top of what the
   * server asks for. Default 2,000. */
  firstPause?: number;
  /** The longest that a pause may become, in milliseconds. Default 60,000. */
  maxPause?: number;
  /** How long a try may take, in milliseconds. Default: as long as it takes. */
  tryTimeout?: number;
  /** The name of the key in an MCP request's _meta. */
  metaKey?: string;
  /** The HTTP header of the key. */
  header?: string;
}

/** What a tool of MCP is called with. */
export interface ToolCall {
  name: string;
  arguments?: Record<string, unknown>;
  _meta?: Record<string, unknown>;
}

/**
 * Thrown when all tries were used up or the signal ended the call. Whether it took effect
 * is not known. The same call with the same intent, now or later, finds that out and
 * does nothing twice.
 */
export class GaveUpError extends Error {
  readonly intent: string;
  readonly key: string;
  readonly tries: number;

  /** The cause is the last try's error, tool result or Response, or the signal's reason. */
  constructor(intent: string, key: string, tries: number, cause: unknown) {
    super(`no answer after ${tries} tries`, { cause });
    this.name = "GaveUpError";
    this.intent = intent;
    this.key = key;
    this.tries = tries;
  }
}

/**
 * Makes calls. An intent names the one effect that is wanted: an order's number, or a
 * session, a turn and a call's id. Whatever is called with it has its key, so that a
 * second action of the same kind needs an intent of its own.
 */
export class Once {
  private readonly options: Required<Omit<Options, "tryTimeout">> & { tryTimeout: number | undefined };

  constructor(options: Options = {}) {
    this.options = {
      keys: options.keys ?? new MemoryKeys(),
      tries: options.tries ?? 3,
      firstPause: options.firstPause ?? 2_000,
      maxPause: options.maxPause ?? 60_000,
      tryTimeout: options.tryTimeout,
      metaKey: options.metaKey ?? "io.github.tooldedup/idempotency-key",
      header: options.header ?? "Idempotency-Key",
    };
  }

  /**
   * Calls a tool of an MCP server. send makes one request and connects anew where the
   * connection is gone, such as (call, signal) => client.callTool(call, { signal }).
   * A tool error that another try cannot repair is the answer, and so is an error of
   * JSON-RPC that says what is wrong with the request: that one is thrown.
   */
  callTool<R>(intent: string, call: ToolCall, send: (call: ToolCall, signal?: AbortSignal) => Promise<R>, signal?: AbortSignal): Promise<R> {
    return this.run(intent, signal, async (key, signal) => {
      const there = call._meta?.[this.options.metaKey];
      if (there !== undefined && there !== key) throw new KeyError("the call's _meta has another key");
      const result = await send({ ...call, _meta: { ...call._meta, [this.options.metaKey]: key } }, signal);
      return { value: result, again: toolAgain(result) };
    });
  }

  /**
   * Sends a request over HTTP as fetch does. The whole answer is read before it is
   * returned, so that one that breaks off is tried again. The body must be one that can
   * be sent twice: no stream. A form is encoded once, for its encoding is another one each
   * time. So a later call with its intent sends other bytes, which a server that compares
   * bytes refuses.
   */
  fetch(intent: string, url: string | URL, init: RequestInit = {}): Promise<Response> {
    if (init.body instanceof ReadableStream) throw new TypeError("a stream cannot be sent twice: read it first");
    const form = init.body instanceof FormData ? new Response(init.body) : undefined;
    const encoded = form?.arrayBuffer();
    return this.run(intent, init.signal ?? undefined, async (key, signal) => {
      const headers = new Headers(init.headers);
      if (form) headers.set("Content-Type", form.headers.get("Content-Type") ?? "");
      if (headers.has(this.options.header)) throw new KeyError("the request has a key already");
      headers.set(this.options.header, headerText(key));
      const body = (await encoded) ?? init.body ?? null;
      const response = await fetch(url, { ...init, body, headers, signal: signal ?? null });
      const answer = await response.arrayBuffer();
      const { status, statusText } = response;
      const value = new Response([204, 205, 304].includes(status) ? null : answer, { status, statusText, headers: response.headers });
      return { value, again: statusAgain(status, retryAfter(response.headers)) };
    });
  }

  private async run<R>(intent: string, signal: AbortSignal | undefined, attempt: (key: string, signal?: AbortSignal) => Promise<Tried<R>>): Promise<R> {
    const { tries, firstPause, maxPause, tryTimeout } = this.options;
    const key = await this.options.keys.keep(intent, crypto.randomUUID());
    for (let tried = 0; ; ) {
      if (signal?.aborted) throw new GaveUpError(intent, key, tried, signal.reason);
      tried++;
      let last: unknown;
      let again: Again;
      try {
        const got = await attempt(key, bounded(signal, tryTimeout));
        last = got.value;
        again = got.again;
        if (again === undefined) return got.value;
      } catch (error) {
        if (error instanceof KeyError || isAnswer(error)) throw error;
        last = error;
        again = 0;
      }
      if (tried >= tries) throw new GaveUpError(intent, key, tried, last);
      await pause(again + Math.random() * Math.min(maxPause, firstPause * 2 ** (tried - 1)), signal);
    }
  }
}

/** Thrown where a request carries another key than the intent's. Nothing was sent. */
export class KeyError extends Error {
  override name = "KeyError";
}

interface Tried<R> {
  value: R;
  again: Again;
}

/** How many milliseconds to wait before another try; undefined for an answer. */
type Again = number | undefined;

const toolCodes = ["in_flight", "outcome_unknown", "unavailable", "timeout"];

/**
 * What mcpdedup says of a tool error, and of a tool whose effect is outside of the database
 * and goes on. Other servers say nothing: theirs is an answer.
 */
function toolAgain(result: unknown): Again {
  const { isError, structuredContent, _meta } = (result ?? {}) as {
    isError?: unknown;
    structuredContent?: { status?: unknown };
    _meta?: Record<string, unknown>;
  };
  const seconds = _meta?.["io.github.tooldedup/retry-after"];
  const failed = isError === true && toolCodes.includes(String(_meta?.["io.github.tooldedup/error"]));
  const running = structuredContent?.status === "running" && seconds !== undefined;
  if (!failed && !running) return undefined;
  return typeof seconds === "number" ? seconds * 1000 : 0;
}

/** 202 and 409 are tried again where the server says when. From 512 on no status has a meaning
 * of its own: those count as 500, such as a proxy's 524. */
function statusAgain(status: number, after: Again): Again {
  const again = [408, 425, 429, 500, 502, 503, 504, 509].includes(status) || status >= 512 || ([202, 409].includes(status) && after !== undefined);
  return again ? after ?? 0 : undefined;
}

/**
 * Whether what was thrown is an answer: an error of JSON-RPC, or an HTTP status that the
 * SDK of MCP throws. Anything else is a lost answer, because connections end with errors
 * of any kind. With the key another try harms nothing.
 */
function isAnswer(error: unknown): boolean {
  const { code, status } = (error ?? {}) as { code?: unknown; status?: unknown };
  const number = typeof status === "number" ? status : code;
  if (typeof number !== "number") return false;
  if (number === 404) return false; // the session is gone: send opens another
  if (number >= 400 && number < 600) return statusAgain(number, undefined) === undefined;
  return number < 0 && ![-32603, -32001, -32000, -1].includes(number); // internal error, and the SDK's own timeout, closed connection and unreadable answer
}

function retryAfter(headers: Headers): Again {
  const text = headers.get("Retry-After");
  if (text === null) return undefined;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const at = Date.parse(text);
  const now = Date.parse(headers.get("Date") ?? "") || Date.now(); // the server's clock
  return Number.isNaN(at) ? undefined : Math.max(0, at - now);
}

/** A string of RFC 9651, as the header's draft has it. */
function headerText(key: string): string {
  if (!/^[ -~]+$/.test(key)) throw new KeyError("the key holds more than printable ASCII, which a header cannot carry");
  return `"${key.replace(/["\\]/g, "\\$&")}"`;
}

function bounded(signal: AbortSignal | undefined, timeout: number | undefined): AbortSignal | undefined {
  if (timeout === undefined) return signal;
  const limit = AbortSignal.timeout(timeout);
  return signal ? AbortSignal.any([signal, limit]) : limit;
}

/** Ends early with the signal, and after 24 days: a timer that is set for longer ends at once. */
function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(milliseconds, 2 ** 31 - 1));
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}
