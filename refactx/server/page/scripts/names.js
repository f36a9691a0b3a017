/** Names of entities, which in an index of Wikidata end with a description in brackets, and links to them. */

import { element, isolated } from "./element.js";

/** The path before the server's own, without a slash at its end: empty, or what a proxy has put there. */
export const root = new URL("..", import.meta.url).pathname.slice(0, -1);

const CHOICE = "refactx-model";

/** The model that was chosen, in the address or before in this window; empty: the server's first. */
export const chosen = new URLSearchParams(location.search).get("model") ?? sessionStorage.getItem(CHOICE) ?? "";
keepChoice(chosen);

/** Keep the name of a model that was chosen until the window is closed. */
export function keepChoice(name) {
    sessionStorage.setItem(CHOICE, name);
}

/** Return an address of this server with parameters, those that are empty left out, and the model that was chosen. */
export function address(path, parameters = {}) {
    const given = Object.entries({ ...parameters, model: chosen }).filter(([, value]) => value !== "");
    const query = new URLSearchParams(given).toString();
    return query ? `${root}${path}?${query}` : `${root}${path}`;
}

/** Split a name: `Alaska (state of the USA)` is `{label: "Alaska", about: "state of the USA"}`. */
export function split(name) {
    if (name.endsWith(")")) {
        let depth = 0;
        for (let at = name.length - 1; at > 0; at--) {
            depth += name[at] === ")" ? 1 : name[at] === "(" ? -1 : 0;
            if (depth === 0) {
                const label = name.slice(0, at).trimEnd();
                return label ? { label, about: name.slice(at + 1, -1) } : { label: name, about: "" };
            }
        }
    }
    return { label: name, about: "" };
}

/** Return a name whose description stands out less, and has no brackets. */
export function nameOf(name) {
    const { label, about } = split(name);
    const shown = isolated(label, { class: "label" });
    return element("span", { class: "name" }, shown, about && " ", about && isolated(about, { class: "about" }));
}

/** Return a name as it is written in a fact, with the label apart from the description. */
export function writtenName(name) {
    const { label } = split(name);
    return element("bdi", {}, element("span", { class: "label" }, label), name.slice(label.length));
}

/** Return the text of a part of a fact, which is a link to an entity or a literal. */
export function textOf(part) {
    return part.literal ?? part.label;
}

/** Return the text of a fact's qualifiers, such as `start time: 1990; end time: 1994`; empty if it has none. */
export function qualifiersOf(fact) {
    return (fact.qualifiers ?? []).map((one) => `${textOf(one.predicate)}: ${textOf(one.value)}`).join("; ");
}

/** Return the parts of a fact without their descriptions. */
export function labelsOf(fact) {
    return [fact.subject, fact.predicate, fact.object].map((part) => split(textOf(part)).label);
}

/** Return the address of the page that shows a subject, and maybe its values for a property, in this index. */
export function exploreUrl(subject, predicate = "", prefix = "") {
    return address("/explore", { prefix: prefix ?? "", subject: subject ?? "", predicate: predicate ?? "" });
}

/** Return the page of a fact: its statement on Wikidata or a site of its kind, or else its subject's in this index. */
export function factUrl(fact) {
    const isStatement = isOfWikibase((fact.inverse ? fact.object : fact.subject).id, fact.predicate.id);
    return (isStatement && sourceUrl(fact)) || exploreUrl(fact.subject.label, fact.predicate.label);
}

/** Return where a fact comes from: its statement, or the page of its subject; null if it has none. */
export function sourceUrl(fact) {
    const subject = fact.inverse ? fact.object : fact.subject;
    if (!subject.url || !/^https?:\/\//.test(subject.url)) {
        return null;
    }
    return isOfWikibase(subject.id, fact.predicate.id) ? `${subject.url}#${fact.predicate.id}` : subject.url;
}

/** Return the name of the site of an address: `Wikidata`, or its host. */
export function siteOf(url) {
    const { host } = new URL(url);
    return host === "www.wikidata.org" ? "Wikidata" : host;
}

/** Return links to what Wikidata says a fact is from; false if there are none. */
export function referencesOf(fact) {
    const urls = (fact.references ?? []).filter((url) => /^https?:\/\//.test(url) && URL.canParse(url));
    const links = urls.flatMap((url) => [" ", link(url, { class: "source", title: url }, siteOf(url))]);
    return links.length > 0 && element("div", { class: "references" }, "from", ...links);
}

/** Whether pages of a subject have a place for each property, as those of Wikibase have. */
function isOfWikibase(subject, property) {
    return /^[PQL]\d+$/.test(subject ?? "") && /^P\d+$/.test(property ?? "");
}

/** Return a link that opens a new window if it leads to another site. */
export function link(url, given, ...children) {
    const isElsewhere = !url.startsWith("/");
    const more = isElsewhere ? { target: "_blank", rel: "noopener noreferrer" } : {};
    return element("a", { href: url, ...more, ...given }, ...children);
}
