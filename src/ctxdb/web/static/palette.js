// Ctrl-K (and / on our pages) goes to the search field.
"use strict";
document.addEventListener("keydown", (event) => {
  const field = document.getElementById("find");
  if (!field) return;
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  const isCtrlK = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k";
  if (isCtrlK || (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey)) {
    event.preventDefault();
    field.focus();
    field.select();
  }
});
