/** The tree of the index at a fact: the subject's properties, and the property's values, with the path of the fact. */

import { counted, element, isolated } from "./element.js";
import { exploreUrl, link, nameOf, split, textOf } from "./names.js";
import { errorNotice, waitingNotice } from "./notice.js";
import { get } from "./server.js";

const SHOWN = 9; // siblings of a node that are listed
const READ = 200;
const BEFORE_OPENING = 180; // milliseconds: a pointer that only passes opens nothing
const BEFORE_CLOSING = 250; // so that the pointer can move from the fact to its tree

const known = new Map(); // what the server has replied, by its question
let open = null;
let panels = 0;

/** Return an element that shows the tree at a fact. */
export function treeOf(fact) {
    const root = element("div", { class: "tree" });
    fill(root, fact);
    return root;
}

/** Let a link to a fact show the tree below it while it, or the tree, has the pointer or the focus. */
export function attachTree(anchor, line, fact) {
    let timer = 0;
    const state = { anchor, line, fact, panel: null };
    const within = (target) => target instanceof Node && (anchor.contains(target) || state.panel?.contains(target));
    const later = (milliseconds, action) => {
        clearTimeout(timer);
        timer = setTimeout(action, milliseconds);
    };
    const enter = () => later(BEFORE_OPENING, () => show(state, { pointer: leave, stay: enter }));
    const leave = () => later(BEFORE_CLOSING, () => within(document.activeElement) || hide(state));
    anchor.setAttribute("aria-expanded", "false");
    anchor.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && enter());
    anchor.addEventListener("pointerleave", leave);
    anchor.addEventListener("focus", () => anchor.matches(":focus-visible") && enter());
    line.addEventListener("focusout", (event) => within(event.relatedTarget) || leave());
    line.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && state.panel) {
            event.stopPropagation();
            if (state.panel.contains(document.activeElement)) {
                anchor.focus();
            }
            clearTimeout(timer);
            hide(state);
        }
    });
}

function show(state, { pointer, stay }) {
    if (state.panel) {
        return;
    }
    if (open) {
        hide(open);
    }
    open = state;
    panels += 1;
    state.panel = element(
        "div",
        {
            class: "tree-panel",
            id: `tree-${panels}`,
            role: "group",
            "aria-label": "What else the index has here",
            dir: "ltr",
        },
        treeOf(state.fact),
    );
    state.panel.addEventListener("pointerenter", stay);
    state.panel.addEventListener("pointerleave", pointer);
    state.anchor.setAttribute("aria-expanded", "true");
    state.anchor.setAttribute("aria-controls", state.panel.id);
    state.line.append(state.panel);
}

function hide(state) {
    state.panel?.remove();
    state.panel = null;
    state.anchor.setAttribute("aria-expanded", "false");
    state.anchor.removeAttribute("aria-controls");
    if (open === state) {
        open = null;
    }
}

async function fill(root, fact) {
    const subject = textOf(fact.subject);
    const predicate = textOf(fact.predicate);
    root.replaceChildren(waitingNotice("Looking into the index"));
    try {
        const [of, values] = await Promise.all([
            asked({ subject, limit: READ }),
            asked({ subject, predicate, limit: READ }),
        ]);
        root.replaceChildren(branchOfProperties(subject, predicate, of), branchOfValues(fact, values));
    } catch (error) {
        root.replaceChildren(errorNotice(error, error.passes ? () => fill(root, fact) : null));
    }
}

async function asked(parameters) {
    const key = JSON.stringify(parameters);
    if (!known.has(key)) {
        const wanted = get("/v1/facts", parameters);
        known.set(key, wanted);
        wanted.catch(() => known.delete(key));
    }
    return known.get(key);
}

function branchOfProperties(subject, predicate, found) {
    const nodes = found.properties.map((one) => ({
        text: one.label,
        count: one.facts,
        url: exploreUrl(subject, one.label),
        isTaken: one.label === predicate,
    }));
    const title = [isolated(split(subject).label), " has ", amount(nodes, found, "property", "properties")];
    return branch(title, nodes, exploreUrl(subject));
}

function branchOfValues(fact, found) {
    const subject = textOf(fact.subject);
    const predicate = textOf(fact.predicate);
    const nodes = found.facts.map((one) => ({
        text: textOf(one.object),
        url: one.object.literal === undefined ? exploreUrl(textOf(one.object)) : null,
        isTaken: textOf(one.object) === textOf(fact.object),
    }));
    const title = [isolated(predicate), " has ", amount(nodes, found, "value")];
    return branch(title, nodes, exploreUrl(subject, predicate));
}

function amount(nodes, found, noun, plural = `${noun}s`) {
    return nodes.length >= READ && found.truncated ? `over ${READ} ${plural}` : counted(nodes.length, noun, plural);
}

/** Return a node's children: the one on the path first, then those with most facts. */
function branch(title, nodes, url) {
    const order = [...nodes].sort((a, b) => b.isTaken - a.isTaken || (b.count ?? 0) - (a.count ?? 0));
    const items = order.slice(0, SHOWN).map((node) => {
        const name = node.url ? link(node.url, {}, nameOf(node.text)) : nameOf(node.text);
        const count = node.count === undefined ? null : element("span", { class: "count" }, String(node.count));
        const path = node.isTaken && element("span", { class: "unseen" }, "in this fact: ");
        return element("li", { class: node.isTaken && "taken" }, path, name, count);
    });
    const more = order.length - items.length;
    if (more > 0) {
        items.push(element("li", { class: "more" }, link(url, {}, `${more.toLocaleString("en")} more`)));
    }
    return element(
        "div",
        { class: "branch" },
        element("p", { class: "branch-title" }, ...title),
        element("ul", {}, ...items),
    );
}
