// What both pages need: talking to the server, making elements, remembering settings.

export const byId = (id) => document.getElementById(id);
export const later = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** GET without a body, else a write. Throws an Error whose `status` is the HTTP status, 0 if unreachable. */
export async function api(path, body, method = "POST") {
  const write = {
    method,
    headers: { "Content-Type": "application/json", "X-Pairsieve": "1" },
    body: JSON.stringify(body),
    keepalive: true, // an answer on its way is not lost when the page is closed
  };
  let response;
  try {
    response = await fetch(path, { ...(body === undefined ? {} : write), signal: AbortSignal.timeout(60_000) });
  } catch {
    throw Object.assign(new Error("The server cannot be reached."), { status: 0 });
  }
  if (response.status === 401) location.replace("/login");
  const made = await response.json().catch(() => ({}));
  if (response.ok) return made;
  const words = Array.isArray(made.detail) ? made.detail.map((d) => d.msg).join("; ") : made.detail;
  const retryAfter = Number(response.headers.get("Retry-After")) || 0; // seconds
  throw Object.assign(new Error(words || `The server answered ${response.status}.`), { status: response.status, retryAfter });
}

/** A name for one click: the same click sent twice counts once. */
export function newToken() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** An element with text and children; text is only ever a text node. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function remember(key, value) {
  try {
    localStorage.setItem(`pairsieve ${key}`, JSON.stringify(value));
  } catch {
    // private windows may refuse; the page works without
  }
}

export function recall(key, usual) {
  try {
    const held = JSON.parse(localStorage.getItem(`pairsieve ${key}`));
    return held === null ? usual : held;
  } catch {
    return usual;
  }
}
