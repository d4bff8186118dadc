// A site of files: filter the list of sessions by words. Everything else works without script.
"use strict";
(() => {
  const field = document.getElementById("filter");
  const table = document.getElementById("sessions");
  if (!field || !table) return;
  field.hidden = false;
  const rows = [...table.tBodies[0].rows].map((row) => ({ row, text: row.textContent.toLowerCase() }));
  const shown = document.getElementById("shown");
  const apply = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const { row, text } of rows) {
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) count += 1;
    }
    shown.textContent = words.length ? `${count} of ${rows.length}` : "";
  };
  field.addEventListener("input", apply);
  apply();
})();
