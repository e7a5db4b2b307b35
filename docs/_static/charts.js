// Draws each chart when it comes near the window, in the colours of the page.
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const drawn = new Map();

function chartTheme() {
  const chosen = document.body.dataset.theme; // furo: auto, light or dark
  const dark = chosen === "dark" || (chosen !== "light" && prefersDark.matches);
  return chartThemes[dark ? "dark" : "light"];
}

async function drawChart(box) {
  const spec = JSON.parse(box.querySelector("script").textContent);
  const view = box.querySelector(".chart-view");
  if (spec.columns && view.clientWidth < 480) spec.columns = 1;
  drawn.get(box)?.finalize();
  const target = document.createElement("div");
  target.className = "chart-drawing"; // out of sight until it replaces the picture
  view.append(target);
  const shown = await vegaEmbed(target, spec, {
    ast: true,
    renderer: "svg",
    config: chartTheme(),
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: box.dataset.name,
    i18n: { SVG_ACTION: "Save as SVG", PNG_ACTION: "Save as PNG", CLICK_TO_VIEW_ACTIONS: "Save this chart" },
  });
  drawn.set(box, shown);
  target.classList.remove("chart-drawing");
  view.replaceChildren(box.querySelector("template").content.cloneNode(true), target);
}

const nearWindow = new IntersectionObserver((entries) => {
  for (const entry of entries.filter((one) => one.isIntersecting)) {
    nearWindow.unobserve(entry.target);
    drawChart(entry.target);
  }
}, { rootMargin: "600px" });

addEventListener("DOMContentLoaded", () => {
  const boxes = document.querySelectorAll("div.chart");
  boxes.forEach((box) => nearWindow.observe(box));
  const redraw = () => [...drawn.keys()].forEach(drawChart);
  prefersDark.addEventListener("change", redraw);
  new MutationObserver(redraw).observe(document.body, { attributeFilter: ["data-theme"] });
  addEventListener("beforeprint", () => boxes.forEach((box) => drawn.has(box) || drawChart(box)));
});
