// The page of a session: fetches parts when they are needed, follows the scroll position, has keys,
// and asks for news. Every part is an element whose id is also the id of its place on the page.
"use strict";
(() => {
  const session = document.getElementById("session");
  const turns = document.getElementById("turns");
  if (!session || !turns) return;

  const AT_A_TIME = 4; // requests
  const CALLS_AT_A_TIME = 50; // in one request
  let areToolsOpen = false;

  // -- parts ---------------------------------------------------------------------------------------

  const parsed = (html) => new DOMParser().parseFromString(html, "text/html").body;

  const withPart = (address) => {
    const url = new URL(address, location.href);
    url.searchParams.set("part", "1");
    return url;
  };

  // Put each element of an answer in the place of the element with its id.
  const replaceParts = (body) => {
    for (const part of [...body.children]) {
      const old = part.id && part.parentNode === body && document.getElementById(part.id);
      if (!old) continue;
      const open = [...old.querySelectorAll("details[open][id]")].map((one) => one.id);
      const scrolled = old.scrollTop;
      const added = document.adoptNode(part);
      old.replaceWith(added);
      if (scrolled) added.scrollTop = scrolled;
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
      // The place of the part that comes next is new with this part.
      const next = body.firstElementChild;
      if (next?.matches(".part.waiting") && !document.getElementById(next.id)) {
        added.after(document.adoptNode(next));
        watch(next);
      }
      watch(added);
    }
  };

  const waiting = [];
  let running = 0;
  const inQueue = (job) => new Promise((done) => {
    waiting.push(() => job().finally(done));
    next();
  });
  const next = () => {
    while (running < AT_A_TIME && waiting.length) {
      running += 1;
      waiting.shift()().finally(() => { running -= 1; next(); });
    }
  };

  const asked = new WeakSet();
  const load = (link) => {
    if (asked.has(link)) return Promise.resolve();
    asked.add(link);
    link.setAttribute("aria-busy", "true");
    return inQueue(async () => {
      try {
        const answer = await fetch(withPart(link.href), { credentials: "same-origin" });
        if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
        replaceParts(parsed(await answer.text()));
      } catch (error) {
        asked.delete(link);
        link.removeAttribute("aria-busy");
        link.textContent = `${error.message}: try again`;
      }
    });
  };

  // Calls that are opened together are fetched together.
  let calls = [];
  const loadCall = (link) => {
    if (asked.has(link)) return;
    asked.add(link);
    calls.push(link);
    if (calls.length === 1) setTimeout(loadCalls, 30);
  };
  const loadCalls = () => {
    const links = calls.splice(0);
    for (let at = 0; at < links.length; at += CALLS_AT_A_TIME) {
      const some = links.slice(at, at + CALLS_AT_A_TIME);
      const url = withPart(session.dataset.calls);
      url.searchParams.set("ids", some.map((link) => new URL(link.href).searchParams.get("ids")).join(","));
      inQueue(async () => {
        try {
          const answer = await fetch(url, { credentials: "same-origin" });
          if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
          replaceParts(parsed(await answer.text()));
        } catch (error) {
          for (const link of some) { asked.delete(link); link.textContent = `${error.message}: try again`; }
        }
      });
    }
  };

  const nearby = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      nearby.unobserve(entry.target);
      load(entry.target);
    }
  }, { rootMargin: "800px 0px" });

  const watch = (element) => {
    for (const link of element.querySelectorAll("a.later[data-when=visible]")) nearby.observe(link);
    if (areToolsOpen) for (const one of element.querySelectorAll("details.call")) one.open = true;
    for (const one of element.querySelectorAll("details[open]")) openLater(one);
    if (element.matches?.("section.turn")) position.observe(element);
    for (const one of element.querySelectorAll("section.turn")) position.observe(one);
  };

  const openLater = (details) => {
    const link = details.querySelector(":scope > .body > a.later");
    if (!link) return;
    if (details.classList.contains("call")) loadCall(link); else load(link);
  };

  document.addEventListener("toggle", (event) => {
    if (event.target instanceof HTMLDetailsElement && event.target.open) openLater(event.target);
  }, true);

  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const link = event.target.closest("a");
    if (link?.matches(".later")) {
      event.preventDefault();
      load(link);
    } else if (link?.matches("#found a")) {
      event.preventDefault();
      goTo(new URL(link.href).hash.slice(1), link.dataset.turn);
    } else if (link && link.hash && link.pathname === location.pathname && !link.search) {
      goTo(link.hash.slice(1));
    }
    const copy = event.target.closest("[data-copy]");
    if (copy) copyText(copy);
  });

  const copyText = async (button) => {
    const from = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(from.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(from);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  };

  // -- places --------------------------------------------------------------------------------------

  // Go to a turn or a call, and load the turn first if the page has only a place for it.
  const goTo = async (id, turn) => {
    const place = document.getElementById(turn || id);
    const link = place?.querySelector(":scope > .more > a.later");
    if (link) await load(link);
    const target = document.getElementById(id) || document.getElementById(turn);
    if (!target) return;
    if (target instanceof HTMLDetailsElement) target.open = true;
    target.scrollIntoView({ block: turn && target.id !== turn ? "center" : "start" });
    if (target.id.startsWith("turn-")) { history.replaceState(null, "", `#${target.id}`); mark(target.id); }
  };

  let current = "";
  const mark = (id) => {
    if (!id || id === current) return;
    current = id;
    const contents = document.getElementById("contents");
    contents.querySelector("[aria-current]")?.removeAttribute("aria-current");
    const link = contents.querySelector(`a[href="#${CSS.escape(id)}"]`);
    if (!link) return;
    link.setAttribute("aria-current", "true");
    const box = contents.getBoundingClientRect(), at = link.getBoundingClientRect();
    if (at.top < box.top || at.bottom > box.bottom) contents.scrollTop += at.top - box.top - box.height / 3;
  };
  // The turn that crosses a line near the top of the window is the current one.
  const position = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) mark(entry.target.id);
  }, { rootMargin: "-12% 0px -86% 0px" });

  const sections = () => [...turns.querySelectorAll(":scope > section.turn")];
  const step = (by) => {
    const all = sections();
    const at = all.findIndex((one) => one.id === current);
    const wanted = all[Math.max(0, Math.min(all.length - 1, at + by))];
    if (wanted) goTo(wanted.id);
  };

  // The next failed call after the last one that was shown; turns that are not loaded count too.
  let lastError = null;
  const nextError = async () => {
    const after = (one) => lastError && document.contains(lastError)
      ? lastError.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING
      : one.getBoundingClientRect().top > 80;
    const failed = () => [...turns.querySelectorAll(".call-error")].find(after);
    let found = failed();
    const marked = [...document.querySelectorAll("#contents a.has-errors")]
      .map((link) => document.getElementById(link.hash.slice(1)))
      .find((place) => place?.classList.contains("waiting") && after(place));
    if (marked && (!found || marked.compareDocumentPosition(found) & Node.DOCUMENT_POSITION_FOLLOWING)) {
      await load(marked.querySelector("a.later"));
      found = failed();
    }
    if (!found) { say("There is no error after this place."); lastError = null; return; }
    for (const one of document.querySelectorAll(".here")) one.classList.remove("here");
    lastError = found;
    found.classList.add("here");
    if (found instanceof HTMLDetailsElement) found.open = true;
    found.scrollIntoView({ block: "center" });
    (found.querySelector("summary") || found).focus({ preventScroll: true });
  };

  const toggleTools = () => {
    areToolsOpen = !areToolsOpen;
    for (const one of turns.querySelectorAll("details.call")) one.open = areToolsOpen;
    document.getElementById("toggle-tools").textContent = areToolsOpen ? "Close tools" : "Open tools";
  };

  const say = (text) => { document.getElementById("news").textContent = text; };
  const help = document.getElementById("keys");
  const field = document.getElementById("find-here");
  document.getElementById("show-keys").addEventListener("click", () => help.showModal());
  document.getElementById("toggle-tools").addEventListener("click", toggleTools);
  document.addEventListener("click", (event) => { if (event.target.id === "next-error") nextError(); });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable], dialog")) return;
    const actions = {
      j: () => step(1), k: () => step(-1), e: nextError, t: toggleTools,
      "/": () => { field.focus(); field.select(); }, "?": () => help.showModal(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    action();
  }, true);

  field.form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const found = document.getElementById("found");
    if (!field.value.trim()) { found.replaceChildren(); return; }
    const url = withPart(field.form.action);
    url.searchParams.set("q", field.value);
    try {
      const answer = await fetch(url, { credentials: "same-origin" });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      replaceParts(parsed(await answer.text()));
      document.getElementById("found").scrollIntoView({ block: "start" });
    } catch (error) { say(`The search failed: ${error.message}`); }
  });

  // -- news ----------------------------------------------------------------------------------------

  let version = session.dataset.version;
  const wait = () => Number(session.dataset.wait) || 2000; // milliseconds
  const lastParts = () => {
    const last = sections().at(-1);
    if (!last) return { turn: "", start: "" };
    const parts = [...last.querySelectorAll(":scope > .part:not(.waiting)")];
    const start = parts.length ? parts.at(-1).id.replace(/^.*-from-/, "") : "";
    return { turn: last.id.replace(/^turn-/, ""), start };
  };
  const look = async () => {
    const url = new URL(session.dataset.live, location.href);
    const { turn, start } = lastParts();
    for (const [name, value] of Object.entries({ version, turn, start })) url.searchParams.set(name, value);
    const answer = await fetch(url, { credentials: "same-origin" });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const body = parsed(await answer.text());
    const state = body.querySelector("#live");
    if (!state || state.dataset.version === version) return;
    version = state.dataset.version;
    session.dataset.wait = state.dataset.wait;
    const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 120;
    const news = body.querySelector("#turns");
    news.remove();
    replaceParts(body);
    replaceParts(news);
    for (const added of [...news.children]) {
      turns.append(document.adoptNode(added));
      watch(added);
    }
    const shown = current;
    current = "";
    mark(shown);
    if (isAtEnd) scrollTo(0, document.documentElement.scrollHeight);
  };
  const again = () => setTimeout(async () => {
    try {
      if (document.visibilityState === "visible") await look();
      say("");
    } catch { say("The server does not answer. The page shows what was there before."); }
    again();
  }, wait());

  watch(turns);
  if (location.hash) goTo(decodeURIComponent(location.hash.slice(1)));
  again();
})();
