// On Datasette's own pages: Ctrl-K leads to the search, and long texts are the last columns.
"use strict";
(() => {
  const LONG = 100; // characters
  const home = new URL(document.currentScript.src).pathname.replace(/static\/datasette\.js$/, "");
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      event.stopPropagation();
      location.href = home + "search";
    }
  }, true);
  document.addEventListener("DOMContentLoaded", () => {
    if (!document.body.classList.contains("table")) return;
    const table = document.querySelector("table.rows-and-columns");
    if (!table) return;
    const rows = [...table.rows];
    const width = rows.length ? rows[0].cells.length : 0;
    const longest = (column) =>
      Math.max(0, ...rows.map((row) => (row.cells[column] ? row.cells[column].textContent.trim().length : 0)));
    const last = [...Array(width).keys()].filter((column) => column > 0 && longest(column) > LONG);
    for (const row of rows) {
      const cells = last.map((column) => row.cells[column]);
      for (const cell of cells) if (cell) row.append(cell);
    }
  });
})();
