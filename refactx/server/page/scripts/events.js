/** Server-sent events. */

/** Yield the data of each event in the body of a reply; comments are left out. */
export async function* events(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    try {
        while (true) {
            const { done, value } = await reader.read();
            if (done) {
                return;
            }
            const parts = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
            rest = parts.pop();
            for (const part of parts) {
                const lines = part.split("\n").filter((line) => line.startsWith("data:"));
                if (lines.length) {
                    yield lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n");
                }
            }
        }
    } finally {
        await reader.cancel().catch(() => {});
    }
}
