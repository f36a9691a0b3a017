/** Plots of rows whose values are numbers, dates or places, as SVG of our own. The rows themselves are beside them. */

import { element } from "./element.js";
import { split } from "./names.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_BARS = 30;
const MOST_MARKS = 2000;
const MOST_NAMES = 20; // beside places
const [WIDEST, HEIGHT, ROW] = [640, 300, 22];
const [LEFT, RIGHT, TOP, BOTTOM] = [56, 16, 12, 28];
const LETTER = 7; // pixels of a letter, about
const STEPS = [1, 2, 5, 10];

const LATITUDE = /^(.*[^a-z])?lat(itude)?([^a-z].*)?$/i;
const LONGITUDE = /^(.*[^a-z])?(lon|lng|long|longitude)([^a-z].*)?$/i;
const POINT = /^(?:<[^>]*>\s*)?Point\s*(?:Z\s*)?\(\s*(-?[\d.]+)\s+(-?[\d.]+)(?:\s+-?[\d.]+)?\s*\)$/i;
const DEGREES = /^([\d.]+)°\s*([NS])[,\s]+([\d.]+)°\s*([EW])(?: \(.*\))?$/;

const readers = {
    place: (text) => {
        const [point, degrees] = [POINT.exec(text), DEGREES.exec(text)];
        const found = point
            ? [Number(point[1]), Number(point[2])]
            : degrees && [
                  Number(degrees[3]) * (degrees[4] === "W" ? -1 : 1),
                  Number(degrees[1]) * (degrees[2] === "S" ? -1 : 1),
              ];
        return found && isOnEarth(found) ? found : null;
    },
    number: (text) => (/^[+-]?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? Number(text) : null),
    date: (text) => {
        const found = /^([+-]?\d{4,6})-(\d\d)(?:-(\d\d))?/.exec(text);
        return found && Number(found[1]) + (Math.max(1, found[2]) - 1) / 12 + (Math.max(1, found[3] ?? 1) - 1) / 365;
    },
};

/** Return a plot of rows of texts, folded open; null if there is nothing to draw. */
export function plotOf(columns, rows) {
    if (rows.length < 2) {
        return null;
    }
    const kinds = columns.map((_, at) => kindOf(rows.map((row) => row[at])));
    const value = (kind, row, at) => readers[kind](row[at]);
    const at = { number: kinds.indexOf("number"), date: kinds.indexOf("date") };
    const label = Math.max(0, kinds.indexOf("text"));
    const name = (row) => split(row[label]).label;
    const full = rows.filter((row) => kinds.every((kind, column) => kind === "text" || row[column]));
    const second = kinds.indexOf("number", at.number + 1);
    const across = at.date >= 0 ? at.date : second >= 0 ? at.number : -1;
    const up = at.date >= 0 ? at.number : second;
    const places = placesOf(columns, kinds, full, name);
    if (places.length > 1) {
        return figure("Map", `Places of ${columns[label]}, north is up`, mapOf(places));
    }
    if (across >= 0 && up >= 0) {
        const points = full.map((row) => [value(kinds[across], row, across), value("number", row, up), row.join(", ")]);
        return figure("Plot", `${columns[up]} by ${columns[across]}`, scatter(points));
    }
    const only = Math.max(at.number, at.date);
    if (only < 0 || full.length < 2 || columns.length < 2) {
        return null;
    }
    const bars = full.slice(0, MOST_BARS).map((row) => [name(row), value(kinds[only], row, only), row[only]]);
    return figure("Plot", `${columns[only]} by ${columns[label]}`, barsOf(bars, kinds[only] === "date"));
}

/**
 * Return a timeline of spans (name, first day, last day), folded open, the earliest first; null of less than two.
 * A day that is empty is open: the span goes on to that side.
 */
export function timelineOf(spans) {
    const yearsOf = (ends) => ends.map((text) => text.slice(0, 4)).join("–");
    const dated = spans.map(([name, ...ends]) => [name, ...ends.map(dayOf), yearsOf(ends)]);
    const known = dated.filter(([, from, to]) => from !== null || to !== null);
    if (known.length < 2) {
        return null;
    }
    const days = known.flatMap(([, from, to]) => [from, to]).filter((one) => one !== null);
    const [low, high] = [Math.min(...days), Math.max(...days)];
    const open = (high - low || 1) / 10;
    const bars = known
        .sort((a, b) => (a[1] ?? -Infinity) - (b[1] ?? -Infinity))
        .slice(0, MOST_BARS)
        .map(([name, from, to, text]) => [name, from ?? low - open, text, to ?? high + open]);
    return figure("Timeline", "When these facts hold", barsOf(bars, true));
}

const dayOf = (text) => (/^\d{1,4}$/.test(text) ? Number(text) : readers.date(text));

/** Return longitude, latitude and name of each row: of a column of places, or of two that are called so; else none. */
function placesOf(columns, kinds, rows, name) {
    const place = kinds.indexOf("place");
    if (place >= 0) {
        return rows.map((row) => [...readers.place(row[place]), name(row)]);
    }
    const names = columns.map((one) => one.replace(/([a-z])([A-Z])/g, "$1 $2"));
    const named = (pattern) => names.findIndex((one, at) => kinds[at] === "number" && pattern.test(one));
    const [longitude, latitude] = [named(LONGITUDE), named(LATITUDE)];
    if (longitude < 0 || latitude < 0) {
        return [];
    }
    const points = rows.map((row) => [Number(row[longitude]), Number(row[latitude]), name(row)]);
    return points.every(isOnEarth) ? points : [];
}

function isOnEarth([longitude, latitude]) {
    return Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180;
}

/** Return what all values of a column are, without those that are empty: a place, a number, a date, or text. */
function kindOf(texts) {
    const given = texts.filter(Boolean);
    const fits = ([, read]) => given.length > 1 && given.every((text) => read(text) !== null);
    return Object.entries(readers).find(fits)?.[0] ?? "text";
}

function figure(title, about, drawn) {
    drawn.setAttribute("aria-label", about);
    return element(
        "details",
        { class: "plot", open: true },
        element("summary", {}, title),
        element("figure", {}, drawn, element("figcaption", {}, about)),
    );
}

function svg(tag, given = {}, ...children) {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(given)) {
        made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
}

/** Return what puts numbers onto pixels, and round numbers for lines between them. */
function scale(numbers, from, to) {
    let [low, high] = numbers.reduce(([a, b], one) => [Math.min(a, one), Math.max(b, one)], [Infinity, -Infinity]);
    const room = (high - low) * 0.04 || Math.abs(high) * 0.1 || 1;
    [low, high] = [low - room, high + room];
    const power = 10 ** Math.floor(Math.log10((high - low) / 5));
    const step = STEPS.map((one) => one * power).find((one) => (high - low) / one <= 6);
    const first = Math.ceil(low / step);
    const ticks = Array.from({ length: Math.floor(high / step) - first + 1 }, (_, at) => (first + at) * step);
    return { at: (one) => from + ((one - low) / (high - low)) * (to - from), ticks };
}

const shown = (number) => {
    const rounded = Number(number.toPrecision(12));
    const isYear = Math.abs(rounded) < 10_000;
    return isYear ? String(rounded) : rounded.toLocaleString("en", { notation: "compact" });
};

/** Return the width of a plot, so that its letters are not smaller on a phone. */
const widthNow = () => Math.min(WIDEST, document.documentElement.clientWidth - 32);

/**
 * Return a map: north is up, and a degree of longitude is as wide as it is in the middle (equirectangular). It goes
 * over the date line if places lie close on both sides of it.
 */
function mapOf(points) {
    const longitudes = points.map((one) => one[0]).sort((a, b) => a - b);
    const gaps = longitudes.map((one, at) => (at ? one - longitudes[at - 1] : one + 360 - longitudes.at(-1)));
    const west = longitudes[gaps.indexOf(Math.max(...gaps))];
    const turned = points.map(([x, y, name]) => [x < west ? x + 360 : x, y, name]);
    const [[left, right], [south, north]] = [0, 1].map((side) => {
        const numbers = turned.map((one) => one[side]);
        return [Math.min(...numbers), Math.max(...numbers)];
    });
    const stretch = Math.max(0.05, Math.cos((((south + north) / 2) * Math.PI) / 180));
    const [wide, high] = [widthNow() - LEFT - RIGHT, HEIGHT - TOP - BOTTOM];
    const degree = Math.max(0.0005, ((right - left) * stretch) / wide, (north - south) / high) * 1.1; // of a pixel
    const ends = [
        [(left + right) / 2, (degree * wide) / stretch / 2],
        [(south + north) / 2, (degree * high) / 2],
    ].map(([middle, half]) => [middle - half, middle + half]);
    return scatter(turned, ends, [longitudeOf, latitudeOf], points.length <= MOST_NAMES);
}

const degreesOf = (number, [positive, negative]) => {
    const degrees = Number(Math.abs(number).toFixed(4));
    return `${degrees}°${degrees === 0 || degrees === 180 ? "" : number > 0 ? positive : negative}`;
};
const latitudeOf = (number) => degreesOf(number, "NS");
const longitudeOf = (number) => degreesOf(((((number + 180) % 360) + 360) % 360) - 180, "EW");

function scatter(points, ends = [], units = [shown, shown], hasNames = false) {
    const width = widthNow();
    const x = scale(ends[0] ?? points.map((one) => one[0]), LEFT, width - RIGHT);
    const y = scale(ends[1] ?? points.map((one) => one[1]), HEIGHT - BOTTOM, TOP);
    const nameAt = ([a, b, name]) => {
        const isRight = x.at(a) + 8 + name.length * LETTER > width;
        const given = { x: x.at(a) + (isRight ? -8 : 8), y: y.at(b) + 4, "text-anchor": isRight ? "end" : "start" };
        return svg("text", given, name);
    };
    const parts = [
        ...x.ticks.flatMap((one) => [
            svg("line", { x1: x.at(one), x2: x.at(one), y1: TOP, y2: HEIGHT - BOTTOM }),
            svg("text", { x: x.at(one), y: HEIGHT - 8, "text-anchor": "middle" }, units[0](one)),
        ]),
        ...y.ticks.flatMap((one) => [
            svg("line", { x1: LEFT, x2: width - RIGHT, y1: y.at(one), y2: y.at(one) }),
            svg("text", { x: LEFT - 8, y: y.at(one) + 4, "text-anchor": "end" }, units[1](one)),
        ]),
        ...points
            .slice(0, MOST_MARKS)
            .map(([a, b, name]) => svg("circle", { cx: x.at(a), cy: y.at(b), r: 4 }, svg("title", {}, name))),
        ...(hasNames ? points.map(nameAt) : []),
    ];
    return svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img" }, ...parts);
}

/** Return bars from zero, or marks for dates or from one to another (the fourth of a bar), one below the other. */
function barsOf(bars, areDates) {
    const width = widthNow();
    const left = width / 3;
    const most = Math.floor(left / LETTER) - 2; // letters
    const numbers = bars.flatMap((one) => [one[1], one[3] ?? one[1]]);
    const x = scale(areDates ? numbers : [0, ...numbers], left, width - 88);
    const parts = bars.flatMap(([name, number, text, last = number], at) => {
        const y = at * ROW;
        const ends = areDates ? [x.at(number) - 2, x.at(last) + 2] : [x.at(0), x.at(number)];
        const [from, to] = ends.sort((a, b) => a - b);
        const label = name.length > most ? `${name.slice(0, most - 1)}…` : name;
        return [
            svg("text", { x: left - 8, y: y + 15, "text-anchor": "end" }, label),
            svg(
                "rect",
                { x: from, y: y + 4, width: Math.max(1, to - from), height: ROW - 8, rx: 2 },
                svg("title", {}, `${name}: ${text}`),
            ),
            svg("text", { x: to + 6, y: y + 15 }, areDates ? text.slice(0, 10) : shown(number)),
        ];
    });
    return svg("svg", { viewBox: `0 0 ${width} ${bars.length * ROW}`, role: "img" }, ...parts);
}
