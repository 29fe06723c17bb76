"use strict";
// Picks a view, and shows the numbers under the mouse. All numbers come out of the tables below the charts.
(() => {
  const view = document.getElementById("view");
  const tip = document.getElementById("tip");
  const pick = document.getElementById("pick");

  const places = new Map([["", [...view.childNodes]]]);
  for (const template of document.querySelectorAll("template[data-view]")) {
    places.set(template.dataset.view, [...template.content.childNodes]);
  }

  const show = (name) => {
    hide();
    view.replaceChildren(...(places.get(name) ?? places.get("")));
  };

  let drawing = null;
  let index = 0;

  const hide = () => {
    if (drawing) drawing.querySelector(".cursor").hidden = true;
    drawing = null;
    tip.hidden = true;
  };

  const line = (look, name, value) => {
    const row = document.createElement("div");
    const swatch = document.createElement("span");
    swatch.className = `swatch ${look}`;
    const label = document.createElement("span");
    label.textContent = name;
    const number = document.createElement("span");
    number.textContent = value;
    row.append(swatch, label, number);
    return row;
  };

  const point = (on, at) => {
    const table = on.closest("figure").querySelector("table");
    const rows = table.tBodies[0].rows;
    if (drawing && drawing !== on) hide();
    drawing = on;
    index = Math.min(Math.max(at, 0), rows.length - 1);
    const [head, ...cells] = rows[index].cells;
    const when = document.createElement("b");
    when.textContent = head.textContent;
    const lines = cells.map((cell, n) => {
      const name = table.tHead.rows[0].cells[n + 1];
      return line(name.dataset.look, name.textContent, cell.textContent);
    });
    tip.replaceChildren(when, ...lines.reverse());
    tip.hidden = false;
    const box = on.getBoundingClientRect();
    const x = (index + 0.5) / rows.length * box.width;
    const cursor = on.querySelector(".cursor");
    cursor.hidden = false;
    cursor.style.left = `${x}px`;
    const besides = box.left + x + 14;
    const fits = besides + tip.offsetWidth < innerWidth - 8;
    tip.style.left = `${Math.max(fits ? besides : box.left + x - 14 - tip.offsetWidth, 8)}px`;
    tip.style.top = `${Math.max(Math.min(box.top + 4, innerHeight - tip.offsetHeight - 8), 8)}px`;
  };

  const under = (event) => event.target.closest?.(".drawing");

  view.addEventListener("pointermove", (event) => {
    const on = under(event);
    if (!on) return hide();
    const box = on.getBoundingClientRect();
    const count = on.closest("figure").querySelector("table").tBodies[0].rows.length;
    point(on, Math.floor((event.clientX - box.left) / box.width * count));
  });
  view.addEventListener("pointerleave", hide);
  view.addEventListener("focusout", hide);
  addEventListener("scroll", hide, { passive: true });
  view.addEventListener("keydown", (event) => {
    const on = under(event);
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
    if (event.key === "Escape") return hide();
    if (!on || !step) return;
    event.preventDefault();
    point(on, drawing === on ? index + step : step > 0 && step < 1e9 ? 0 : 1e9 * Math.sign(step));
  });

  const asked = () => {
    try {
      return decodeURIComponent(location.hash.slice(1));
    } catch {
      return ""; // an address that somebody cut or typed
    }
  };

  if (pick) {
    pick.closest("label").hidden = false;
    const follow = () => {
      const name = asked();
      pick.value = places.has(name) ? name : "";
      show(pick.value);
    };
    pick.addEventListener("change", () => { location.hash = encodeURIComponent(pick.value); });
    addEventListener("hashchange", follow);
    if (location.hash) follow(); // last: it uses all of the above
  }
})();
