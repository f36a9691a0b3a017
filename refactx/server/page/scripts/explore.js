/** The page that walks the index: its address says what it shows. */

import { showChoice } from "./choice.js";
import { counted, element, isolated, say } from "./element.js";
import { nearList, propertyHead, propertyList, subjectHead, subjectList, valueList } from "./explore_lists.js";
import { exploreUrl, root, split } from "./names.js";
import { errorNotice, waitingNotice } from "./notice.js";
import { get } from "./server.js";

const PAGE = 100; // subjects and values that are shown at first
const MOST = 1000;
const TYPING_MILLISECONDS = 200;
const LONG_MILLISECONDS = 300; // after which a list says that it is waited for

const [banner, search, prefix, subjects, properties, values] = [
    "banner",
    "search",
    "prefix",
    "subjects",
    "properties",
    "values",
].map((id) => document.getElementById(id));
let isDrawn = false;
const wanted = new Map(); // the last request of each list
let typing = 0;

function state() {
    const given = new URLSearchParams(location.search);
    return Object.fromEntries(["prefix", "subject", "predicate"].map((name) => [name, given.get(name) ?? ""]));
}

/** Show what the address says. */
async function show() {
    const now = state();
    if (!isDrawn || document.activeElement !== prefix) {
        prefix.value = now.prefix;
    }
    const title = [now.predicate, now.subject && split(now.subject).label].filter(Boolean).join(" of ");
    document.title = `${title || "Explore"} · ReFactX`;
    isDrawn = true;
    await Promise.all([showSubjects(now), showProperties(now), showValues(now)]);
}

async function showSubjects(now, limit = PAGE) {
    await fill(subjects, [now.prefix], async (signal) => {
        let found = await get("/v1/facts", { prefix: `<${now.prefix}`, limit }, signal);
        const capital = now.prefix.charAt(0).toUpperCase() + now.prefix.slice(1);
        if (!found.completions.length && capital !== now.prefix) {
            found = await get("/v1/facts", { prefix: `<${capital}`, limit }, signal);
        }
        if (found.completions.length) {
            const all = subjectList(found, now);
            return [all, found.truncated && more(subjects, limit, () => showSubjects(now, MOST))];
        }
        if (!now.prefix) {
            return [element("p", { class: "soft" }, "The index has no facts.")];
        }
        const { near } = await get("/v1/facts", { subject: now.prefix, limit: 1 }, signal);
        const none = element("p", { class: "soft" }, "No subject begins with ", isolated(now.prefix), ".");
        return [none, near.length > 0 && nearList(near, now)];
    });
}

async function showProperties(now) {
    await fill(properties, [now.subject], async (signal) => {
        if (!now.subject) {
            return [element("p", { class: "soft" }, "Choose a subject.")];
        }
        const found = await get("/v1/facts", { subject: now.subject, limit: MOST }, signal);
        if (!found.properties.length) {
            const none = element("p", { class: "soft" }, "The index has no facts about ", isolated(now.subject), ".");
            return [none, found.near.length > 0 && nearList(found.near, now)];
        }
        const facts = found.properties.reduce((total, one) => total + one.facts, 0);
        say(`${split(now.subject).label}: ${counted(found.properties.length, "property", "properties")}`);
        return [subjectHead(found.subject, facts), propertyList(found, now)];
    });
}

async function showValues(now, limit = PAGE) {
    await fill(values, [now.subject, now.predicate], async (signal) => {
        if (!now.predicate) {
            return [element("p", { class: "soft" }, now.subject ? "Choose a property." : "")];
        }
        const found = await get("/v1/facts", { subject: now.subject, predicate: now.predicate, limit }, signal);
        if (!found.facts.length) {
            return [element("p", { class: "soft" }, "The index has no such facts.")];
        }
        say(`${now.predicate}: ${counted(found.properties[0].facts, "value")}`);
        const all = valueList(found, now);
        return [
            propertyHead(found.properties[0], now),
            all,
            found.truncated && more(values, limit, () => showValues(now, MOST)),
        ];
    });
}

/**
 * Fill a list with what `make` returns, unless it shows that already, as `key` says; then mark what is shown beside it.
 * Meanwhile it keeps what it has, and if that takes long, it says so.
 */
async function fill(list, key, make) {
    const name = JSON.stringify(key);
    wanted.get(list)?.abort();
    if (list.dataset.shows !== name) {
        const control = new AbortController();
        wanted.set(list, control);
        await replace(list, name, make, control);
    }
    const { subject, predicate } = state();
    mark(list, subject, list === subjects ? "" : predicate);
}

async function replace(list, name, make, control) {
    const wait = () => {
        delete list.dataset.shows;
        list.replaceChildren(waitingNotice("Looking into the index"));
    };
    const timer = setTimeout(wait, LONG_MILLISECONDS);
    list.setAttribute("aria-busy", "true");
    try {
        const made = await make(control.signal);
        if (!control.signal.aborted) {
            list.replaceChildren(...made.filter(Boolean));
            list.dataset.shows = name;
        }
    } catch (error) {
        if (error.name !== "AbortError") {
            delete list.dataset.shows;
            list.replaceChildren(errorNotice(error, () => replace(list, name, make, control)));
        }
    } finally {
        clearTimeout(timer);
        if (wanted.get(list) === control) {
            list.removeAttribute("aria-busy");
        }
    }
}

/** Mark the link of a list that leads to a subject, or to a property of it, as the one that is shown. */
function mark(list, subject, predicate) {
    for (const one of list.querySelectorAll("a.go")) {
        const to = new URL(one.href).searchParams;
        if (to.get("subject") === subject && (to.get("predicate") ?? "") === predicate) {
            one.setAttribute("aria-current", "true");
        } else {
            one.removeAttribute("aria-current");
        }
    }
}

function more(list, limit, action) {
    if (limit >= MOST) {
        return element("p", { class: "soft" }, `The first ${MOST.toLocaleString("en")} are shown.`);
    }
    const click = () => {
        delete list.dataset.shows;
        action();
    };
    return element("button", { type: "button", class: "quiet", click }, "Show more");
}

/** Go to what a link shows, with the text in the field, and move the focus to what is new there. */
async function go(url) {
    clearTimeout(typing);
    const before = state();
    const given = new URL(url, location.href).searchParams;
    history.pushState(null, "", exploreUrl(given.get("subject"), given.get("predicate"), prefix.value));
    const now = state();
    await show();
    const title = now.predicate && now.predicate !== before.predicate ? "values-title" : "properties-title";
    const heading = document.getElementById(title);
    heading.focus({ preventScroll: true });
    reveal(heading);
}

/** On a narrow page, where lists are below each other, scroll to one. */
function reveal(heading) {
    if (matchMedia("(max-width: 60rem)").matches) {
        heading.scrollIntoView({ block: "start" });
    }
}

document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    if (link?.getAttribute("href").startsWith(`${root}/explore?`) && isPlain) {
        event.preventDefault();
        go(link.getAttribute("href"));
    }
});
search.addEventListener("submit", (event) => event.preventDefault());
prefix.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => {
        const now = state();
        history.replaceState(null, "", exploreUrl(now.subject, now.predicate, prefix.value));
        show();
    }, TYPING_MILLISECONDS);
});
addEventListener("popstate", show);

show().then(() => {
    const { subject, predicate } = state();
    if (subject) {
        reveal(document.getElementById(predicate ? "values-title" : "properties-title"));
    }
});
get("/v1/models")
    .then((found) => showChoice(found.data))
    .catch(() => {}); // the lists say what is wrong
get("/v1/examples", { limit: 1 })
    .then((found) => {
        const about = [isolated(found.index, { class: "index-name" }), ` has ${counted(found.size, "fact")}.`];
        document.getElementById("about-index").replaceChildren(...about);
    })
    .catch(() => {}); // the lists say what is wrong
