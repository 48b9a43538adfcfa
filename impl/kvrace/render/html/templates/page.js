
(() => {
  "use strict";
  document.documentElement.classList.add("js");

  /* One finding, event by event. Everything stands in the page already; this only chooses what is shown. */
  function play(player) {
    const last = Number(player.dataset.last);
    const loop = player.dataset.loop === undefined ? null : Number(player.dataset.loop);
    const shown = [...player.querySelectorAll("[data-event]")];
    const sections = [...player.querySelectorAll(".moments > section")];
    const now = player.querySelector(".now");
    const buttons = {};
    for (const button of player.querySelectorAll("button[data-go]")) buttons[button.dataset.go] = button;
    let at = last;

    const places = {
      first: () => 0,
      back: () => Math.max(0, at - 1),
      forward: () => (at < last ? at + 1 : loop === null ? last : loop),
      last: () => last,
    };

    function show(place) {
      at = place;
      for (const part of shown) {
        const here = Number(part.dataset.event) === at;
        part.classList.toggle("current", here);
        if (part.matches("tr, th")) {
          if (here) part.setAttribute("aria-current", "step");
          else part.removeAttribute("aria-current");
        }
      }
      for (const section of sections) section.hidden = Number(section.dataset.event) !== at;
      now.textContent = sections[at].dataset.words;
      for (const [name, button] of Object.entries(buttons)) {
        /* Not "disabled": that would take the focus, and with it the arrow keys. */
        button.setAttribute("aria-disabled", String(places[name]() === at));
      }
      const column = player.querySelector(".grid thead .current");
      const box = column.closest(".scroll");
      const left = column.offsetLeft, right = left + column.offsetWidth;
      if (left < box.scrollLeft) box.scrollLeft = left - 40;
      else if (right > box.scrollLeft + box.clientWidth) box.scrollLeft = right - box.clientWidth + 8;
    }

    for (const [name, button] of Object.entries(buttons)) {
      button.addEventListener("click", () => show(places[name]()));
    }
    const keys = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last" };
    player.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const box = event.target.closest(".scroll");
      if (box === event.target && box.scrollWidth > box.clientWidth) return; /* there these keys scroll */
      event.preventDefault();
      show(places[keys[event.key]]());
    });
    player.addEventListener("click", (event) => {
      const part = event.target.closest(".lanes tr[data-event], .grid [data-event]");
      if (!part) return;
      show(Number(part.dataset.event));
      player.focus({ preventScroll: true });
    });
    player.querySelector(".stepper").hidden = false;
    show(last);
  }

  /* Copying needs a permission that a page from a file may not have. Then the text is selected, ready for Ctrl+C. */
  function copying(button) {
    const code = button.parentElement.querySelector("code");
    const told = button.parentElement.querySelector(".copied");
    button.hidden = false;
    button.addEventListener("click", async () => {
      told.textContent = "";
      try {
        await navigator.clipboard.writeText(code.textContent);
        told.textContent = "copied";
        return;
      } catch {
        getSelection().selectAllChildren(code);
      }
      let copied = false;
      try {
        copied = document.execCommand("copy");
      } catch {
        copied = false;
      }
      told.textContent = copied ? "copied" : "selected: press Ctrl+C or ⌘C to copy it";
    });
  }

  /* A state graph: the state in focus, the shortest order to it, and where its events lead. */
  function walk(graph) {
    const svg = graph.querySelector("svg");
    const told = graph.querySelector(".told");
    const states = [...svg.querySelectorAll("[data-state]")];
    const edges = [...svg.querySelectorAll("path.e")].map((path) => ({
      path,
      from: Number(path.dataset.from),
      to: Number(path.dataset.to),
      words: path.querySelector("title").textContent.replace(/^\d+ → \d+: /, ""),
    }));
    const parent = new Map(edges.filter((edge) => edge.path.matches(".tree")).map((edge) => [edge.to, edge]));
    const place = states.map((state) => {
      const box = state.querySelector(".s").getBBox();
      return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
    });
    let here = null;

    function clear() {
      for (const part of svg.querySelectorAll(".here, .way, .out")) part.classList.remove("here", "way", "out");
    }

    function show(number) {
      clear();
      here = number;
      const out = edges.filter((edge) => edge.from === number);
      for (const edge of out) edge.path.classList.add("out");
      for (let edge = parent.get(number); edge; edge = parent.get(edge.from)) {
        edge.path.classList.add("way");
        states[edge.from].classList.add("way");
      }
      states[number].classList.add("here");
      const leads = out.map((edge) => `${edge.words} → ${edge.to}`);
      const name = states[number].querySelector("title").textContent;
      told.textContent = `${name[0].toUpperCase()}${name.slice(1)}. ${leads.length ? `Then: ${leads.join("; ")}.` : "Nothing can follow."}`;
      for (const state of states) state.setAttribute("tabindex", state === states[number] ? "0" : "-1");
    }

    function nearest(test) {
      const from = place[here];
      let best = null;
      states.forEach((_, number) => {
        const to = place[number];
        if (number === here || !test(to.x - from.x, to.y - from.y)) return;
        const far = Math.hypot(to.x - from.x, (to.y - from.y) * 2);
        if (best === null || far < best.far) best = { number, far };
      });
      return best && best.number;
    }

    const moves = {
      ArrowLeft: () => (parent.has(here) ? parent.get(here).from : null),
      ArrowRight: () => {
        const on = edges.find((edge) => edge.from === here && parent.get(edge.to) === edge);
        return on ? on.to : null;
      },
      ArrowUp: () => nearest((x, y) => Math.abs(x) < 1 && y < 0),
      ArrowDown: () => nearest((x, y) => Math.abs(x) < 1 && y > 0),
      Home: () => 0,
      End: () => states.length - 1,
    };
    svg.addEventListener("focusin", (event) => {
      const state = event.target.closest("[data-state]");
      if (state) show(Number(state.dataset.state));
    });
    svg.addEventListener("click", (event) => {
      const state = event.target.closest("[data-state]");
      if (state) state.focus({ preventScroll: true });
    });
    svg.addEventListener("keydown", (event) => {
      if (!(event.key in moves) || here === null || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const next = moves[event.key]();
      if (next !== null) states[next].focus();
    });
    told.hidden = false;
    told.textContent = "Choose a state, by pointer or by Tab and the arrow keys, to see the order that leads to it.";
    states[0].setAttribute("tabindex", "0");
  }

  for (const player of document.querySelectorAll(".player")) play(player);
  for (const button of document.querySelectorAll(".copy")) copying(button);
  for (const details of document.querySelectorAll("details.states")) {
    /* Shapes have a place only once they are shown. */
    const ready = () => {
      if (!details.open || details.dataset.ready) return;
      details.dataset.ready = "yes";
      walk(details.querySelector(".graph"));
    };
    details.addEventListener("toggle", ready);
    ready();
  }

  /* A link to a folded part opens it. */
  function unfold() {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.matches("details")) target.open = true;
  }
  addEventListener("hashchange", unfold);
  unfold();
})();
