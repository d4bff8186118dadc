// Use the theme that was chosen before; without one, the system's theme applies (see the CSS).
"use strict";
(() => {
  const root = document.documentElement;
  const remembered = () => {
    try { return localStorage.getItem("ctxdb-theme"); } catch { return null; }
  };
  const chosen = remembered();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    if (!button) return;
    button.addEventListener("click", () => {
      const isDark = root.dataset.theme
        ? root.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = isDark ? "light" : "dark";
      try { localStorage.setItem("ctxdb-theme", root.dataset.theme); } catch { /* not remembered */ }
    });
  });
})();
