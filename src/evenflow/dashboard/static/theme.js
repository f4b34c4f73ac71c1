// Light or dark: as the system has it, until somebody chooses.

const ORDER = ["system", "light", "dark"];
const SIGNS = { system: "◐", light: "☀", dark: "☾" };

export function setUpTheme(button, changed) {
  let chosen = "system";
  try {
    chosen = localStorage.getItem("evenflow-theme") ?? "system";
  } catch {
    chosen = "system"; // storage may be switched off
  }
  const forget = () => {
    known.clear();
    changed();
  };
  const apply = () => {
    if (!ORDER.includes(chosen)) chosen = "system";
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    button.textContent = SIGNS[chosen];
    button.setAttribute("aria-label", `Colours: ${chosen === "system" ? "as the system" : chosen}`);
    forget();
  };
  button.addEventListener("click", () => {
    chosen = ORDER[(ORDER.indexOf(chosen) + 1) % ORDER.length];
    try {
      localStorage.setItem("evenflow-theme", chosen);
    } catch {
      // then it lasts until the page is closed
    }
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forget);
  apply();
}

const known = new Map();
const probe = document.body.appendChild(document.createElement("i"));
probe.hidden = true;

/** A colour of the theme by its name, such as "accent", as #rrggbb; asked of the browser once for each theme. */
export function colour(name) {
  if (!known.has(name)) {
    probe.style.color = `var(--${name})`;
    const parts = getComputedStyle(probe).color.match(/\d+/g).slice(0, 3);
    known.set(name, `#${parts.map((part) => Number(part).toString(16).padStart(2, "0")).join("")}`);
  }
  return known.get(name);
}
