// Keeps the page fresh.  Without this script the page is complete and needs a reload.
// It knows the page only by its data-* attributes.

const INTERVAL_MS = 1000;
const body = document.body;
const live = document.querySelector("[data-live]");
const template = document.getElementById("work");

function showTime(element, iso) {
  element.dateTime = iso;
  element.textContent = new Date(iso).toLocaleTimeString();
}

function row(work) {
  const fragment = template.content.cloneNode(true);
  const id = fragment.querySelector("[data-cell=id]");
  id.textContent = "…" + work.id.slice(-8);
  id.title = work.id;
  fragment.querySelector("[data-cell=function]").textContent = work.function;
  showTime(fragment.querySelector("time"), work.enqueued_at);
  const status = fragment.querySelector(".status");
  status.textContent = work.status;
  status.dataset.status = work.status;
  return fragment;
}

function showPool(pool) {
  const section = document.querySelector(`[data-pool="${CSS.escape(pool.name)}"]`);
  for (const [key, count] of Object.entries(pool.counts)) {
    const cell = section.querySelector(`[data-count="${CSS.escape(key)}"]`);
    if (cell) cell.textContent = count;
  }
  if (pool.works.length) {
    section.querySelector("[data-works]").replaceChildren(...pool.works.map(row));
  }
}

async function refresh() {
  const response = await fetch(body.dataset.statusUrl, { cache: "no-store" });
  if (!response.ok) throw new Error(`status answered ${response.status}`);
  (await response.json()).pools.forEach(showPool);
}

async function turn() {
  if (!document.hidden) {
    try {
      await refresh();
      live.dataset.state = "connected";
      live.textContent = "live";
    } catch {
      live.dataset.state = "lost";
      live.textContent = "no connection";
    }
  }
  setTimeout(turn, INTERVAL_MS);
}

for (const element of document.querySelectorAll("time")) {
  showTime(element, element.dateTime);
}
document.querySelector("[data-reload]").hidden = true;
live.hidden = false;
turn();
