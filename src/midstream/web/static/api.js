// The one way to the server. The session is ours to send, in a header: no browser adds it for another site.

export const KEPT = "midstream-session";

let session = localStorage.getItem(KEPT) || "";

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

/** Nobody answered: the program was stopped, or the line to it was cut. */
export class Gone extends Error {
  constructor() { super("midstream does not answer: it was stopped, or the connection to it was lost"); }
}

let lost = () => {};
/** Who is told, each time, that nobody answered. */
export const onLost = (hear) => { lost = hear; };

/** A failed connection is a TypeError, with other words in each browser; anything else stays what it is. */
export function gone(error) {
  if (!(error instanceof TypeError)) return error;
  lost();
  return new Gone();
}

/** Exchange the token in the address for a session, and take it out of the address and the history. */
export async function enter() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(history.state, "", "#/");
  session = (await call("session", { body: { token } })).session;
  localStorage.setItem(KEPT, session);
}

export async function enterWithKey(key) {
  session = (await call("session", { body: {}, headers: { authorization: `Bearer ${key}` } })).session;
  localStorage.setItem(KEPT, session);
}

async function request(path, options = {}) {
  const { body, raw, headers, signal } = options;
  const sends = body !== undefined || raw !== undefined;
  const used = session;
  const response = await fetch(`/web/api/${path}`, {
    method: sends ? "POST" : "GET",
    headers: { "x-midstream-session": session, ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
    credentials: "omit", cache: "no-store", redirect: "error", signal,
  }).catch((error) => { throw gone(error); });
  if (response.ok) return response;
  // The program was started again, and its new address opened in another tab: that session is ours, too.
  const newer = localStorage.getItem(KEPT) || "";
  if (response.status === 401 && path !== "session" && newer !== used) { session = newer; return request(path, options); }
  let told = `the server answered ${response.status}`;
  try { told = (await response.json()).error || told; } catch { /* not JSON: the status says it */ }
  throw new Refused(response.status, told);
}

const asked = new Map();

/** Ask now for what a screen will want when it is drawn: its answer is given out once. Resolves when it is there. */
export function ahead(path) {
  const answer = call(path);
  asked.set(path, answer);
  return answer.catch(() => {});  // told to whoever wants it
}

export async function call(path, options) {
  const known = asked.get(path);
  if (known) { asked.delete(path); return known; }
  return (await request(path, options)).json();
}
export const text = async (path, options) => (await request(path, options)).text();

/** The events of a stream, each as {id, name, data}. */
export async function* events(path, options) {
  const response = await request(path, options);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "", id = "", name = "", data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read().catch((error) => { throw gone(error); });
      if (done) return;
      held += value;
      const lines = held.split("\n");
      held = lines.pop();
      for (const line of lines) {
        if (line === "") {
          if (data.length) yield { id, name, data: JSON.parse(data.join("\n")) };
          [name, data] = ["", []];
        } else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
        else if (line.startsWith("id:")) id = line.slice(3).trim();
        else if (line.startsWith("event:")) name = line.slice(6).trim();
      }
    }
  } finally { reader.cancel().catch(() => {}); }
}

/** What a screen filters by stands in the address, for a link and for Back. */
export function keep(place, fields) {
  const said = query(fields);
  history.replaceState(history.state, "", `#/${place}${said ? `?${said}` : ""}`);
}

export const query = (fields) => {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    for (const each of Array.isArray(value) ? value : [value]) if (each !== "" && each !== null && each !== undefined) made.append(name, each);
  }
  return made.toString();
};
