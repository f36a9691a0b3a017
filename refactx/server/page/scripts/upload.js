/** A file that people choose or drop on the page, which becomes an index that they can ask. */

import { choose } from "./choice.js";
import { counted, element, say } from "./element.js";
import { get, upload } from "./server.js";

const TABLE = /\.(csv|tsv|tab)$/i;
const STAGES = [
    [/^send/, "Sending the file"],
    [/^read/, "Reading the file"],
    [/^join/, "Joining names and facts"],
    [/^encode/, "Building the index"],
    [/^load/, "Saving the index"],
    [/^store/, "Making it ready for SPARQL"],
];
const HEAD = 65_536; // bytes in which the first line of a table is looked for

/** Show the button that takes a file, and take those that are dropped, if the server makes indexes of them. */
export async function offerUploads() {
    const most = (await get("/health")).max_upload ?? 0;
    const button = document.getElementById("new-index");
    if (!most || !button.hidden) {
        return;
    }
    const input = element("input", { type: "file", hidden: true, change: () => take(input.files) });
    button.after(input);
    button.hidden = false;
    button.addEventListener("click", () => input.click());
    document.addEventListener("dragover", (event) => event.preventDefault());
    document.addEventListener("drop", (event) => {
        event.preventDefault();
        take(event.dataTransfer?.files ?? []);
    });

    async function take([file]) {
        if (file && !document.querySelector("dialog[open]")) {
            show(file, most, await columnsOf(file));
            input.value = "";
        }
    }
}

/** Return the names of a table's columns, if one of them has to name the rows; none for a table of facts. */
async function columnsOf(file) {
    if (!TABLE.test(file.name)) {
        return [];
    }
    const [first] = (await file.slice(0, HEAD).text()).replace(/^\uFEFF/, "").split(/\r?\n/);
    const [delimiter] = ["\t", ";", ","].sort((one, other) => first.split(other).length - first.split(one).length);
    const names = first.split(delimiter).map((name) => name.trim().replace(/^"(.*)"$/, "$1"));
    const isFacts = ["subject", "predicate", "object"].every((name) => names.some((one) => one.toLowerCase() === name));
    return isFacts ? [] : names.filter(Boolean);
}

function show(file, most, columns) {
    const stem = file.name.replace(/\.(gz|bz2|zst|xz)$/i, "").replace(/\.[^.]*$/, "");
    const name = element("input", { id: "index-name", required: true, maxlength: "100", autocomplete: "off" });
    name.value = stem.replace(/[^\p{L}\p{N}_. -]+/gu, "-").replace(/^[. -]+|[ .-]+$/g, "");
    const options = columns.map((one) => element("option", { value: one }, one));
    const subject = columns.length > 0 && element("select", { id: "subject" }, ...options);
    const error = element("p", { class: "error", role: "alert", hidden: true });
    const bar = element("progress", { "aria-labelledby": "upload-stage" });
    const stage = element("p", { id: "upload-stage", role: "status" });
    const waiting = element("div", { class: "stages", hidden: true }, stage, bar);
    const make = element("button", { class: "primary" }, "Make the index");
    const cancel = element("button", { type: "button", class: "quiet", click: () => shown.close() }, "Cancel");
    const form = element(
        "form",
        { submit },
        element("h2", { id: "upload-title" }, "An index of this file"),
        element("p", { dir: "auto" }, `${file.name}, ${counted(file.size, "byte")}`),
        element("label", { for: "index-name" }, "Name of the index"),
        name,
        subject && element("label", { for: "subject" }, "Column with the names of the rows"),
        subject,
        waiting,
        error,
        element("div", { class: "buttons" }, cancel, make),
    );
    const shown = element("dialog", { "aria-labelledby": "upload-title" }, form);

    /** Show where an upload is. `fraction`: how much of the stage is done; null if that is not known. */
    function showStage(name, fraction = null) {
        const text = STAGES.find(([pattern]) => pattern.test(name))?.[1] ?? "Building the index";
        const percent = fraction === null ? "" : `, ${Math.floor(100 * fraction)}%`;
        stage.textContent = `${text}${percent}`;
        if (fraction === null) {
            bar.removeAttribute("value");
        } else {
            bar.value = fraction;
        }
    }

    async function submit(event) {
        event.preventDefault();
        [error.hidden, waiting.hidden, make.disabled] = [true, false, true];
        showStage("send");
        try {
            if (file.size > most) {
                throw new Error(`The file is too large: the server takes ${counted(most, "byte")} at most.`);
            }
            const given = { name: name.value.trim(), file: file.name, subject: subject ? subject.value : "" };
            for await (const found of upload("/v1/indexes", given, file)) {
                if (found.stage === "ready") {
                    say(`${counted(found.facts, "fact")} to ask about`);
                    choose(found.model);
                } else {
                    showStage(found.stage, found.fraction);
                }
            }
        } catch (failed) {
            error.textContent = failed.message;
            [error.hidden, waiting.hidden, make.disabled] = [false, true, false];
        }
    }

    shown.addEventListener("close", () => shown.remove());
    document.body.append(shown);
    shown.showModal();
    name.focus();
}
