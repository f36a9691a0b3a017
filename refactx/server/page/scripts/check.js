/** The page that checks a text: its sentences marked by what facts of the index say. */

import { showChoice } from "./choice.js";
import { counted, element, isolated, say } from "./element.js";
import { errorNotice, waitingNotice } from "./notice.js";
import { get, post } from "./server.js";
import { factLink } from "./written_text.js";

const CLASSES = { holds: "good", differs: "bad", "not in the index": "open" };
const [form, text, send, stop, result] = ["form", "text", "send", "stop", "result"].map((id) =>
    document.getElementById(id),
);
let running = null;

async function run() {
    const given = text.value;
    if (!given.trim() || running) {
        return;
    }
    running = new AbortController();
    [send.hidden, stop.hidden] = [true, false];
    result.replaceChildren(waitingNotice("The text is checked"));
    try {
        result.replaceChildren(...shown(given, await post("/v1/check", { text: given }, running.signal)));
    } catch (error) {
        const stopped = element("p", { class: "soft" }, "Stopped.");
        result.replaceChildren(error.name === "AbortError" ? stopped : errorNotice(error, error.passes ? run : null));
    } finally {
        running = null;
        [send.hidden, stop.hidden] = [false, true];
    }
}

function shown(given, found) {
    const verdicts = found.claims.map((one) => one.verdict);
    const counts = Object.keys(CLASSES).map((name) => `${verdicts.filter((one) => one === name).length} ${name}`);
    const without = `${found.without_claim} of ${counted(found.sentences, "sentence")} without a claim`;
    const summary = `${counted(verdicts.length, "claim")}: ${counts.join(", ")}; ${without}.`;
    say(summary);
    const characters = Array.from(given); // places are in code points
    const marked = element("div", { class: "marked", dir: "auto" });
    let at = 0;
    for (const [start, some] of Map.groupBy(found.claims, (one) => one.start)) {
        marked.append(between(characters.slice(at, start), at > 0), ...sentence(some));
        at = some[0].end;
    }
    marked.append(between(characters.slice(at), at > 0));
    return [element("p", { class: "soft" }, summary), marked];
}

/** Return what stands between claims, without the space after the notes of one, which have lines of their own. */
function between(characters, isAfterNotes) {
    const rest = characters.join("");
    return isAfterNotes ? rest.trimStart() : rest;
}

/** Return a sentence marked by the worst of its verdicts, and each verdict with its fact. */
function sentence(some) {
    const worst = ["differs", "not in the index", "holds"].find((name) => some.some((one) => one.verdict === name));
    const notes = some.map((one) => {
        const fact = one.fact ?? one.instead;
        const verdict = element("span", { class: `verdict ${CLASSES[one.verdict]}` }, one.verdict);
        const before = one.instead ? " Instead: " : " ";
        return element("span", { class: "note" }, verdict, before, fact && factLink(fact));
    });
    return [isolated(some[0].text, { class: `claim ${CLASSES[worst]}` }), " ", ...notes];
}

form.addEventListener("submit", (event) => {
    event.preventDefault();
    run();
});
stop.addEventListener("click", () => running?.abort());
text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        run();
    }
});
get("/v1/models")
    .then((found) => showChoice(found.data))
    .catch(() => {}); // a check says what is wrong
