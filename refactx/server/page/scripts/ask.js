/** The page of questions: a conversation, its field, and its controls. */

import { showChoice } from "./choice.js";
import { say } from "./element.js";
import { showExamples } from "./examples.js";
import { remember, showHistory } from "./history.js";
import { address } from "./names.js";
import { errorNotice } from "./notice.js";
import { get } from "./server.js";
import { Turn, questionUrl } from "./turn.js";
import { offerUploads } from "./upload.js";

const MOST_LINES_HEIGHT = 190; // pixels of the field before it scrolls
const [main, banner, turnsRoot, form, question, send, stop, compare, renew] = [
    "main",
    "banner",
    "turns",
    "form",
    "question",
    "send",
    "stop",
    "compare",
    "renew",
].map((id) => document.getElementById(id));

let model = "";
let turns = [];
let conversation = ""; // its id in the history
let running = []; // what stops the texts that are being written

async function begin() {
    banner.replaceChildren();
    try {
        model = showChoice((await get("/v1/models")).data);
        document.getElementById("model").textContent = model;
    } catch (error) {
        banner.replaceChildren(errorNotice(error, begin));
        return;
    }
    showExamples(ask).catch((error) => {
        // An index that is in no database has no examples.
        if (error.status !== 404) {
            banner.replaceChildren(errorNotice(error, begin));
        }
    });
    offerUploads().catch(() => {}); // the page works without it
    const given = new URLSearchParams(location.search);
    compare.checked = given.has("compare");
    main.toggleAttribute("data-compare", compare.checked);
    if (given.get("q")?.trim() && !turns.length) {
        await ask(given.get("q").trim());
    }
}

async function ask(text) {
    if (!text.trim() || running.length || !model) {
        return;
    }
    const turn = add(text.trim());
    question.value = "";
    fit();
    await answer(turn);
}

function add(text) {
    const turn = new Turn(text, () => answer(turn));
    turns.push(turn);
    turnsRoot.append(turn.root);
    main.removeAttribute("data-empty");
    renew.hidden = false;
    if (turns.length === 1) {
        conversation = String(Date.now());
        history.replaceState(null, "", questionUrl(turn.question, compare.checked));
        document.title = `${turn.question} · ReFactX`;
    }
    return turn;
}

/** Show a conversation of the history, which can be continued. */
async function reopen({ id, turns: kept }) {
    startAnew();
    for (const one of kept) {
        await add(one.question).restore(one);
    }
    conversation = id;
    turns[0].root.scrollIntoView();
}

/** Write the answer of a turn, and the one without facts if people compare. */
async function answer(turn) {
    const texts = [(signal) => turn.writeGrounded(model, before(turn, false), signal)];
    if (compare.checked) {
        texts.push((signal) => writeFree(turn, signal));
    }
    const smooth = !matchMedia("(prefers-reduced-motion: reduce)").matches;
    turn.root.scrollIntoView({ block: "start", behavior: smooth ? "smooth" : "auto" });
    say("Writing");
    await run(...texts);
    const kept = turns.filter((one) => one.grounded.saved);
    if (kept.length) {
        remember(conversation, model, kept.map((one) => ({ question: one.question, ...one.grounded.saved })));
    }
}

function writeFree(turn, signal) {
    return turn.writeFree(model, before(turn, true), signal, () => run((again) => writeFree(turn, again)));
}

/** Run what writes texts, which can be stopped together. */
async function run(...texts) {
    const control = new AbortController();
    running.push(control);
    show();
    try {
        await Promise.all(texts.map((write) => write(control.signal)));
    } finally {
        running = running.filter((one) => one !== control);
        show();
    }
}

function before(turn, isFree) {
    return turns.slice(0, turns.indexOf(turn)).flatMap((one) => one.messages(isFree));
}

function show() {
    const hadFocus = document.activeElement === stop;
    stop.hidden = !running.length;
    send.hidden = Boolean(running.length);
    if (hadFocus && stop.hidden) {
        question.focus();
    }
}

function stopAll() {
    for (const control of running) {
        control.abort();
    }
}

function startAnew() {
    stopAll();
    turns = [];
    turnsRoot.replaceChildren();
    main.setAttribute("data-empty", "");
    renew.hidden = true;
    history.replaceState(null, "", address("/"));
    document.title = "Ask · ReFactX";
    say("New conversation");
    question.focus();
}

/** Make the field as high as its text. */
function fit() {
    question.style.height = "auto";
    question.style.height = `${Math.min(question.scrollHeight, MOST_LINES_HEIGHT)}px`;
}

form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask(question.value);
});
question.addEventListener("input", fit);
question.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
    }
});
document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]")) {
        stopAll();
    }
});
stop.addEventListener("click", stopAll);
document.getElementById("history").addEventListener("click", () => showHistory(reopen));
renew.addEventListener("click", startAnew);
document.getElementById("others").addEventListener("click", () => showExamples(ask).catch(() => {}));
compare.addEventListener("change", () => {
    main.toggleAttribute("data-compare", compare.checked);
    const last = turns.at(-1);
    if (compare.checked && last && !last.free && last.grounded.text) {
        run((signal) => writeFree(last, signal));
    }
});

begin();
