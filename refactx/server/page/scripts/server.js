/** Requests to the server: documents and streams, with the key if it needs one, and errors in words. */

import { askForKey, keyHeaders } from "./key.js";
import { events } from "./events.js";
import { address, root } from "./names.js";

/** An error with a message for people. `status`: of HTTP, 0 without a reply; `seconds`: after which to ask again. */
export class ServerError extends Error {
    constructor(status, message, seconds = null) {
        super(message);
        this.status = status;
        this.seconds = seconds;
    }

    /** Whether the same request may have an answer a little later. */
    get passes() {
        return this.status === 429 || this.status === 503 || this.status === 0;
    }
}

const LOST = "The connection was lost before the answer was whole.";

/** Return the document at an address. */
export async function get(path, parameters = {}, signal = undefined) {
    const reply = await request(path, { signal }, parameters);
    return reply.json();
}

/** Send a document, and return the one that comes back. */
export async function post(path, document, signal = undefined) {
    const reply = await request(path, posted(document, signal));
    return reply.json();
}

/** Send a document, and yield those of the stream that comes back. */
export async function* stream(path, document, signal) {
    yield* streamed(await request(path, posted(document, signal)));
}

/** Send a file with parameters, and yield the documents of the stream that comes back. */
export async function* upload(path, parameters, file) {
    const given = { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file };
    yield* streamed(await request(path, given, parameters));
}

async function* streamed(reply) {
    try {
        for await (const text of events(reply.body)) {
            if (text === "[DONE]") {
                return;
            }
            const found = JSON.parse(text);
            if (found.error) {
                throw new ServerError(500, sentence(found.error.message));
            }
            yield found;
        }
    } catch (error) {
        if (error instanceof ServerError || error.name === "AbortError") {
            throw error;
        }
        throw new ServerError(0, LOST);
    }
    throw new ServerError(0, LOST);
}

/** Return why the server is not ready for texts, in words; empty if it is. */
export async function unready() {
    let status = "";
    try {
        status = (await (await fetch(`${root}/ready`)).json()).status;
    } catch {
        return "The server cannot be reached.";
    }
    const reasons = {
        starting: "The model is reading its prompt: the first answer takes longer.",
        stopping: "The server is about to stop.",
        unavailable: "The database is away.",
    };
    return reasons[status] ?? "";
}

function posted(document, signal) {
    const headers = { "Content-Type": "application/json" };
    return { method: "POST", headers, body: JSON.stringify(document), signal };
}

async function request(path, given, parameters = {}) {
    // Models are listed whichever was chosen.
    const url = path === "/v1/models" ? `${root}${path}` : address(path, parameters);
    while (true) {
        const sent = keyHeaders();
        let reply;
        try {
            reply = await fetch(url, { ...given, headers: { ...given.headers, ...sent } });
        } catch (error) {
            if (error.name === "AbortError") {
                throw error;
            }
            throw new ServerError(0, "The server cannot be reached. It may have stopped, or the network is away.");
        }
        if (reply.ok) {
            return reply;
        }
        const failed = await failure(reply);
        if (reply.status !== 401 || !(await askForKey(sent))) {
            throw failed;
        }
    }
}

async function failure(reply) {
    let message = "";
    try {
        message = (await reply.json()).error.message;
    } catch {
        // not of our server: a proxy before it
    }
    const seconds = Number.parseInt(reply.headers.get("Retry-After") ?? "", 10);
    const titles = {
        401: "The server needs an API key.",
        429: "The server is busy.",
        503: "The server cannot answer now.",
    };
    const title = titles[reply.status] ?? "";
    const text = message ? sentence(message) : `The server replied with status ${reply.status}.`;
    return new ServerError(reply.status, [title, text].filter(Boolean).join(" "), seconds >= 0 ? seconds : null);
}

function sentence(text) {
    const whole = text.charAt(0).toUpperCase() + text.slice(1);
    return /[.!?…]$/.test(whole) ? whole : `${whole}.`;
}
