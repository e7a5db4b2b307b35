// Charts, the key that switches runs on and off, tables that sort, commands that are copied.
const themes = JSON.parse(document.getElementById("themes").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const charts = [...document.querySelectorAll("[data-chart]")];
const views = new Map();

async function draw(box) {
  const spec = JSON.parse(document.getElementById(box.dataset.chart).textContent);
  views.get(box)?.finalize();
  const shown = await vegaEmbed(box, spec, {
    ast: true, // expressions are interpreted, so that the page needs no eval
    renderer: "svg",
    config: themes[dark.matches ? "dark" : "light"],
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: box.dataset.name,
    i18n: { SVG_ACTION: "Save as SVG", PNG_ACTION: "Save as PNG", CLICK_TO_VIEW_ACTIONS: "Save this chart" },
  });
  views.set(box, shown);
  hideRuns(box);
}

function hiddenRuns(section) {
  const off = section?.querySelectorAll('.key [aria-pressed="false"]') ?? [];
  return [...off].map((button) => button.dataset.run);
}

function hideRuns(box) {
  const view = views.get(box)?.view;
  if (view && "hidden" in view.getState().signals) {
    view.signal("hidden", hiddenRuns(box.closest("section"))).runAsync();
  }
}

for (const button of document.querySelectorAll(".key button")) {
  button.addEventListener("click", () => {
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "false");
    button.closest("section").querySelectorAll("[data-chart]").forEach(hideRuns);
  });
}

// Charts are drawn when they come near the window; printing draws the rest.
const near = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((one) => one.isIntersecting)) {
    near.unobserve(entry.target);
    draw(entry.target);
  }
}, { rootMargin: "600px" });
charts.forEach((box) => near.observe(box));
const drawAll = () => Promise.all(charts.map((box) => (near.unobserve(box), draw(box))));
addEventListener("beforeprint", drawAll);
dark.addEventListener("change", () => [...views.keys()].forEach(draw));

for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.querySelector("button")?.addEventListener("click", () => {
      const falls = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falls ? "descending" : "ascending");
      for (const body of table.tBodies) sortRows(body, column, falls ? -1 : 1);
    });
  });
}

function sortRows(body, column, direction) {
  const value = (row) => row.cells[column]?.dataset.value ?? row.cells[column]?.textContent ?? "";
  const rows = [...body.rows].filter((row) => !row.classList.contains("set"));
  rows.sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === "" || b === "") return (a === "") - (b === ""); // what has no value stays last
    const order = isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b;
    return direction * order;
  });
  body.append(...rows);
}

for (const block of document.querySelectorAll("pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(block);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });
  block.parentNode.append(button);
}
