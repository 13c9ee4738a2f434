// The one way to the server. The session is ours to send, in a header: no browser adds it for another site.

const KEPT = "midstream-session";

let session = localStorage.getItem(KEPT) || "";

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

/** Exchange the token in the address for a session, and take it out of the address and the history. */
export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", "#/");
  session = (await call("session", { body: { token } })).session;
  localStorage.setItem(KEPT, session);
}

export async function enterWithKey(key) {
  session = (await call("session", { body: {}, headers: { authorization: `Bearer ${key}` } })).session;
  localStorage.setItem(KEPT, session);
}

async function request(path, { body, raw, headers, signal } = {}) {
  const sends = body !== undefined || raw !== undefined;
  const response = await fetch(`/web/api/${path}`, {
    method: sends ? "POST" : "GET",
    headers: { "x-midstream-session": session, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
    credentials: "omit", cache: "no-store", redirect: "error", signal,
  });
  if (response.ok) return response;
  let told = `the server answered ${response.status}`;
  try { told = (await response.json()).error || told; } catch { /* not JSON: the status says it */ }
  throw new Refused(response.status, told);
}

export const call = async (path, options) => (await request(path, options)).json();
export const text = async (path, options) => (await request(path, options)).text();

/** The events of a stream, each as {id, data}. */
export async function* events(path, options) {
  const response = await request(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "", id = "", data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      held += value;
      const lines = held.split("\n");
      held = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (data.length) yield { id, data: JSON.parse(data.join("\n")) };
          data = [];
        } else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
        else if (line.startsWith("id:")) id = line.slice(3).trim();
      }
    }
  } finally { reader.cancel().catch(() => {}); }
}

export const query = (fields) => {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    for (const each of Array.isArray(value) ? value : [value]) if (each !== "" && each !== null && each !== undefined) made.append(name, each);
  }
  return made.toString();
};
