/** The colours: those of the system, light or dark. It is no module, so that it runs before the page is drawn. */
(() => {
    const NAME = "refactx-theme";
    const root = document.documentElement;

    function stored() {
        try {
            return localStorage.getItem(NAME) ?? "";
        } catch {
            return ""; // a browser that keeps nothing
        }
    }

    function apply(theme) {
        if (theme === "light" || theme === "dark") {
            root.dataset.theme = theme;
        } else {
            delete root.dataset.theme;
        }
    }

    apply(stored());
    document.addEventListener("DOMContentLoaded", () => {
        const control = document.getElementById("theme");
        control.value = root.dataset.theme ?? "";
        control.addEventListener("change", () => {
            apply(control.value);
            try {
                localStorage.setItem(NAME, control.value);
            } catch {
                // It holds until the page is closed.
            }
        });
    });
})();
