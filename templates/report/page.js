"use strict";
const $ = (selector) => document.querySelector(selector);
const table = $("#table"), body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
const rows = [...body.rows], texts = rows.map((row) => row.textContent.toLowerCase());
let only = null;

/* --- light and dark --- */

const root = document.documentElement, prefersDark = matchMedia("(prefers-color-scheme: dark)");
const setTheme = (theme) => { root.dataset.theme = theme; };
setTheme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
$("#theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));

/* --- the table --- */

function filter() {
  const words = $("#filter").value.toLowerCase().split(/\s+/).filter(Boolean), status = $("#status").value;
  let shown = 0;
  rows.forEach((row, number) => {
    const fits = (!only || only.has(row.id)) && (!status || row.dataset.status === status)
      && words.every((word) => texts[number].includes(word));
    row.hidden = !fits;
    shown += fits;
  });
  $("#all").hidden = shown === rows.length;
  $("#told").textContent = `${shown} of ${rows.length} rows`;
}

function showAll() {
  only = null;
  $("#filter").value = $("#status").value = "";
  filter();
}

function sort(column) {
  const up = heads[column].getAttribute("aria-sort") !== "ascending";
  heads.forEach((head, number) => head.setAttribute("aria-sort", number === column ? (up ? "ascending" : "descending") : "none"));
  const isFigure = heads[column].classList.contains("figure");
  const key = (row) => {
    const cell = row.cells[column];
    return isFigure ? (cell.dataset.value === undefined ? null : Number(cell.dataset.value)) : cell.textContent || null;
  };
  const compare = (a, b) => (isFigure ? a - b : a.localeCompare(b, "en", { numeric: true }));
  const keyed = rows.map((row) => [key(row), row]);
  keyed.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : (up ? 1 : -1) * compare(a, b)));
  body.append(...keyed.map(([, row]) => row)); // what has no figure comes last, both ways
}

function goTo(anchor) {
  const row = document.getElementById(anchor);
  if (!row) return;
  if (row.hidden) showAll();
  document.querySelectorAll("tr.found").forEach((other) => other.classList.remove("found"));
  row.classList.add("found");
  row.scrollIntoView({ block: "center" });
  row.focus({ preventScroll: true });
}

const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
const escaped = (text) => text.replace(/\s+/g, " ").replace(/[\\`*_[\]<>|~&]/g, "\\$&");
const FORMS = {
  csv: (lines) => lines.map((line) => line.map(quoted).join(",")).join("\n"),
  markdown: (lines) => {
    const line = (cells) => `| ${cells.map(escaped).join(" | ")} |`;
    const ruler = heads.map((head) => (head.classList.contains("figure") ? "--:" : "---"));
    return [line(lines[0]), `|${ruler.join("|")}|`, ...lines.slice(1).map(line)].join("\n");
  },
};

async function copy(form) {
  const shown = [...body.rows].filter((row) => !row.hidden);
  const lines = [heads, ...shown.map((row) => [...row.cells])].map((cells) => cells.map((cell) => cell.textContent));
  const text = FORMS[form](lines) + "\n";
  try {
    await navigator.clipboard.writeText(text);
  } catch { // a page from disk may have no clipboard of its own
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  $("#told").textContent = `copied ${shown.length} rows`;
}

heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => sort(column)));
$("#filter").addEventListener("input", filter);
$("#status").addEventListener("change", filter);
$("#all").addEventListener("click", showAll);
document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => copy(button.dataset.copy)));
document.querySelectorAll("[data-only]").forEach((button) => button.addEventListener("click", () => {
  only = new Set(ROWS_OF[button.dataset.only]);
  filter();
  $("#rows").scrollIntoView();
}));
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#row-"]');
  if (link) { event.preventDefault(); goTo(link.getAttribute("href").slice(1)); }
});
filter();

/* --- the charts --- */

const ink = "var(--ink)", muted = "var(--muted)", font = 'system-ui, "DejaVu Sans", sans-serif';
const THEME = {
  background: null, font, view: { stroke: null },
  axis: { labelColor: ink, titleColor: muted, gridColor: "var(--line)", domainColor: "var(--line)", tickColor: "var(--line)",
    labelLimit: Math.min(340, innerWidth * 0.35), labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", titlePadding: 8 },
  legend: { labelColor: ink, titleColor: muted, orient: "top", direction: "horizontal", columns: innerWidth < 640 ? 2 : 5,
    labelFontSize: 12, labelLimit: Math.min(240, innerWidth * 0.36) },
};
const OPTIONS = { actions: false, renderer: "svg", config: THEME, tooltip: { disableDefaultStyle: true } };

async function embed(place, spec) {
  const { view } = await vegaEmbed(place, { $schema: "https://vega.github.io/schema/vega-lite/v6.json", ...spec }, OPTIONS);
  view.addEventListener("click", (_, item) => item?.datum?.row && goTo(item.datum.row));
  return view;
}

const pause = () => new Promise((go) => setTimeout(go, 0));

async function draw() {
  await new Promise((go) => requestAnimationFrame(() => setTimeout(go, 0))); // the page is read first
  for (const figure of document.querySelectorAll("[data-chart]")) {
    await embed(figure.querySelector(".canvas"), SPECS[figure.dataset.chart]);
    await pause(); // between two charts the page answers
  }
  if ($("#case")) await calls();
  root.dataset.drawn = "yes";
}

async function calls() {
  const values = () => {
    const found = [];
    for (const [side, rounds] of Object.entries(SAMPLES[$("#case").value].sides)) {
      let call = 0;
      rounds.forEach((times, round) => times.forEach((us) => found.push({ side, round: round + 1, call: ++call, ms: us / 1000 })));
    }
    return found;
  };
  const sides = [...new Set(Object.values(SAMPLES).flatMap((entry) => Object.keys(entry.sides)))];
  const axis = { field: "ms", type: "quantitative", title: "milliseconds", scale: { type: "log", nice: false, padding: 8 }, axis: { format: "~r", tickCount: 5 } };
  const colours = { baseline: "var(--baseline)", candidate: "var(--accent)" };
  const hues = ["var(--hue3)", "var(--hue4)", "var(--hue6)"];
  const view = await embed($("#calls-canvas"), {
    description: "Each call's time in the order in which it was taken",
    data: { name: "calls", values: values() }, width: "container", height: 260,
    mark: { type: "point", filled: true, size: 14, opacity: 0.85, aria: false },
    encoding: {
      x: { field: "call", type: "quantitative", title: "call", scale: { nice: false, padding: 8 }, axis: { tickMinStep: 1, format: "~d" } }, y: axis,
      color: { field: "side", type: "nominal", legend: { title: null },
        scale: { domain: sides, range: sides.map((side) => colours[side] ?? hues.shift() ?? "var(--muted)") } },
      tooltip: [{ field: "side" }, { field: "round" }, { field: "call" }, { field: "ms", format: ".4~g", title: "ms" }],
    },
  });
  const show = () => { $("#case-row").setAttribute("href", `#${$("#case").value}`); };
  $("#case").addEventListener("change", () => { view.data("calls", values()).runAsync(); show(); });
  show();
}
