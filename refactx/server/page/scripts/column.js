/** One answer while it is written, and what is shown below it: with facts, or without them to compare. */

import { counted, element, say } from "./element.js";
import { checkedText } from "./checked_text.js";
import { factsTable } from "./facts_table.js";
import { labelsOf } from "./names.js";
import { errorNotice, retryNotice, waitingNotice } from "./notice.js";
import { queryResult, queryView } from "./query_view.js";
import { stream, unready } from "./server.js";
import { attachTree } from "./tree.js";
import { WrittenText } from "./written_text.js";

const MOST_TRIES = 5;
const USUAL_SECONDS = 2;
const [UNSURE, SURE] = [4, 10]; // confidences: below the first, the usual prompt does not know
const LONG_ANSWER = 40; // characters, from which an answer is not so large
const LONG_MILLISECONDS = 2500; // after which a person wants to know why it takes so long

/** Write a piece of a stream. `about`: its field `refactx`. */
function put(written, content, about) {
    if (!about?.in_fact) {
        written.add(content);
        return;
    }
    written.addToFact(content);
    if (about.fact) {
        written.complete(about.fact);
    }
}

/** What the model thinks before its answer, folded away; its facts are among those of the answer. */
class Thought {
    constructor() {
        this.written = new WrittenText((anchor, line, fact) => attachTree(anchor, line, fact), false);
        this.title = element("summary", {}, "Thinking");
        this.root = element("details", { class: "thought", hidden: true }, this.title, this.written.root);
    }

    /** Show that there is a thought, and return what it is written to. */
    add() {
        this.root.hidden = false;
        return this.written;
    }

    /** Take note that nothing follows. */
    end() {
        this.written.end();
        this.title.textContent = "Thought";
    }
}

/** Return how sure an answer is, in words. `number`: null if nothing was chosen by the question. */
function confidenceOf(number) {
    if (number === null || number === undefined) {
        return null;
    }
    const word = number < UNSURE ? "low" : number < SURE ? "medium" : "high";
    const title = `${number.toFixed(1)}: low below ${UNSURE}, high from ${SURE}`;
    const unseen = element("span", { class: "unseen" }, ` (${title})`);
    return element("span", {}, " · ", element("span", { title }, `${word} confidence`, unseen));
}

export class Column {
    /** `isFree`: whether the answer is written without facts. */
    constructor(isFree) {
        this.isFree = isFree;
        this.text = "";
        this.result = null; // the field `refactx` of an answer that was finished
        this.body = element("div", { class: "body" });
        const title = element("h3", { class: "column-title" }, isFree ? "Without facts" : "With facts");
        this.root = element("section", { class: `column ${isFree ? "free" : "grounded"}` }, title, this.body);
    }

    /** Write the next message of a conversation until it has ended. `again`: what a button after an error calls. */
    async write(model, messages, signal, again) {
        for (let tries = 1; ; tries++) {
            this.begin();
            try {
                await this.once(model, messages, signal);
                return;
            } catch (error) {
                this.stopWaiting();
                this.written.end();
                if (error.name === "AbortError" || signal.aborted) {
                    this.body.append(element("p", { class: "soft stopped" }, "Stopped."));
                    return;
                }
                const isBusy = error.status === 429 || error.status === 503;
                if (!isBusy || tries >= MOST_TRIES || this.text) {
                    this.body.append(errorNotice(error, again));
                    return;
                }
                await this.pause(error, signal);
            }
        }
    }

    /** What a browser keeps of the answer, for `restore`; null unless it is whole. */
    get saved() {
        const { text, result, reason, tokens, seconds } = this;
        return result && text ? { text, result, reason, tokens, seconds } : null;
    }

    /** Show an answer that was kept. */
    async restore({ text, result, reason, tokens, seconds }) {
        this.begin();
        this.stopWaiting();
        Object.assign(this, { text, result, reason });
        let at = 0;
        const placed = result.facts.filter((fact) => fact.span);
        for (const fact of placed.sort((one, other) => one.span[0] - other.span[0])) {
            const start = text.indexOf(fact.text, at);
            if (start >= at) {
                this.written.add(text.slice(at, start));
                put(this.written, fact.text, { in_fact: true, fact });
                at = start + fact.text.length;
            }
        }
        this.written.add(text.slice(at));
        await this.finish(tokens, seconds);
    }

    begin() {
        this.text = "";
        this.result = null;
        this.written = new WrittenText((anchor, line, fact) => {
            attachTree(anchor, line, fact);
            say(`Fact: ${labelsOf(fact).join(", ")}`);
        });
        this.thought = new Thought();
        const waiting = waitingNotice("Waiting for the model");
        this.body.replaceChildren(waiting, this.thought.root, this.written.root);
        this.body.setAttribute("aria-busy", "true");
        this.timer = setTimeout(async () => {
            const reason = await unready();
            if (reason) {
                waiting.querySelector(".waiting-text").textContent = reason;
            }
        }, LONG_MILLISECONDS);
    }

    stopWaiting() {
        this.thought?.end();
        clearTimeout(this.timer);
        this.body.querySelector(".waiting")?.remove();
        this.body.removeAttribute("aria-busy");
    }

    async once(model, messages, signal) {
        const started = performance.now();
        const asked = { model, messages, stream: true, stream_options: { include_usage: true } };
        let tokens = 0;
        for await (const chunk of stream("/v1/chat/completions", asked, signal)) {
            tokens = chunk.usage?.completion_tokens ?? tokens;
            const choice = chunk.choices[0];
            if (choice) {
                this.take(choice.delta, choice.finish_reason);
            }
        }
        this.stopWaiting();
        await this.finish(tokens, (performance.now() - started) / 1000);
    }

    take(delta, reason) {
        const reasoning = delta.reasoning_content;
        if (reasoning || delta.content) {
            clearTimeout(this.timer);
            this.body.querySelector(".waiting")?.remove();
        }
        if (reasoning) {
            put(this.thought.add(), reasoning, delta.refactx);
        }
        if (delta.content) {
            this.thought.end();
            this.text += delta.content;
            put(this.written, delta.content, delta.refactx);
        }
        if (reason) {
            this.result = delta.refactx;
            this.reason = reason;
        }
    }

    async finish(tokens, seconds) {
        Object.assign(this, { tokens, seconds });
        const result = this.result ?? { answer: "", facts: [], queries: [], unknown: false };
        const proof = result.facts.filter((fact) => fact.proves ?? true); // of an older history, all
        this.written.end(result.answer, result.unknown);
        if (result.answer && !this.isFree) {
            this.conclude(result, proof);
        } else if (!this.text.trim()) {
            this.body.append(element("p", { class: "soft" }, "The model wrote nothing."));
        }
        if (this.reason === "length") {
            this.body.append(
                element("p", { class: "soft" }, "The text is cut off here: it reached the most tokens."),
            );
        }
        this.body.append(this.figures(result, tokens, seconds));
        const ended = result.answer ? `Answer: ${result.answer}.` : "The text has ended.";
        say(`${ended} ${counted(proof.length, "fact")}.`);
        if (this.isFree) {
            await checkedText(this.written, this.text, result.answer);
        }
    }

    /** Show the answer first, then what proves it; how it was found is folded away. */
    conclude(result, proof) {
        const answer = element("strong", {}, result.answer);
        const looks = [result.unknown && "unknown", result.answer.length > LONG_ANSWER && "long"].filter(Boolean);
        const tried = result.facts.length - proof.length;
        const isProved = result.unknown || proof.length > 0 || result.queries.at(-1)?.answer === result.answer;
        const title = element("summary", {}, "How it was found");
        title.append(tried ? ` · ${counted(tried, "other fact")} tried` : "");
        const queries = result.queries.map((query) => queryView(query, this.text));
        const parts = [
            element("p", { class: ["answer", ...looks].join(" "), dir: "auto" }, answer),
            ...result.queries.flatMap(queryResult),
            proof.length > 0 && factsTable(proof, proof.length === 1 ? "Proved by this fact" : "Proved by these facts"),
            !isProved &&
                element("p", { class: "notice" }, "No fact of the index proves this answer."),
            element("details", { class: "how" }, title, this.thought.root, this.written.root, ...queries),
        ];
        this.body.replaceChildren(...parts.filter(Boolean));
    }

    figures(result, tokens, seconds) {
        const passes = counted(result.forward_passes ?? 0, "pass", "passes");
        const title = `${counted(tokens, "token")}, ${passes} of the model`;
        const shown = element("span", { title }, `${seconds.toFixed(1)} s`);
        return element("p", { class: "figures" }, shown, !this.isFree && confidenceOf(result.confidence));
    }

    /** Wait until the server may be asked again. */
    pause(error, signal) {
        return new Promise((resolve) => {
            const notice = retryNotice(error, error.seconds ?? USUAL_SECONDS, resolve, signal);
            this.body.replaceChildren(notice);
            signal.addEventListener("abort", resolve);
        });
    }
}
