// The style sheet and script of the HTML page of decisions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_DECISIONPAGEPARTS_H
#define MPC_COMPILER_PRECISION_DECISIONPAGEPARTS_H

#include "llvm/ADT/StringRef.h"

namespace mpc::page {

inline constexpr llvm::StringLiteral kStyle = R"css(
:root {
  color-scheme: light dark;
  --text: #1c2430; --faint: #5c6778; --back: #ffffff; --band: #f3f5f8;
  --line: #d8dee6; --low: #1a7f4b; --low-back: #e3f4e9; --link: #1f5fbf;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e4e8ee; --faint: #98a3b3; --back: #14181f; --band: #1c222c;
    --line: #323b49; --low: #6fd39b; --low-back: #17322a; --link: #82b1ff;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem; max-width: 100rem;
  font: 15px/1.45 system-ui, sans-serif;
  color: var(--text); background: var(--back);
}
h1 { font-size: 1.4rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
p { color: var(--faint); margin: 0 0 1rem; }
[hidden] { display: none !important; }
form {
  display: flex; flex-wrap: wrap; gap: .5rem 1rem; align-items: end;
  position: sticky; top: 0; z-index: 1; padding: .5rem 0;
  background: var(--back);
}
label { display: grid; gap: .1rem; font-size: .8rem; color: var(--faint); }
input, select, form button {
  font: inherit; font-size: .95rem; padding: .25rem .5rem;
  color: var(--text); background: var(--band);
  border: 1px solid var(--line); border-radius: .3rem;
}
input { min-width: 16rem; }
output { font-size: .9rem; color: var(--faint); padding: .3rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td {
  padding: .3rem .6rem; text-align: left; vertical-align: top;
  border-top: 1px solid var(--line); white-space: nowrap;
}
thead th { border: 0; background: var(--band); font-size: .85rem; }
th button {
  font: inherit; color: inherit; background: none; border: 0; padding: 0;
  text-align: left; cursor: pointer;
}
tbody th { white-space: normal; overflow-wrap: anywhere; min-width: 11rem; }
tbody th, td[data-column=op] { font-family: ui-monospace, monospace; }
tbody th { font-weight: 500; font-size: .9rem; }
td[data-column=op] { font-size: .9rem; }
tbody th button { color: var(--link); }
tbody th button::before {
  content: "\25b8"; display: inline-block; width: 1.1em; color: var(--faint);
}
tbody th button[aria-expanded=true]::before { content: "\25be"; }
td.low { color: var(--low); background: var(--low-back); }
td[data-column=casts], td[data-column=free], td[data-column=cost],
thead th:nth-child(n + 8) {
  text-align: right; font-variant-numeric: tabular-nums;
}
th button[data-order]::after { content: " \25b4"; color: var(--faint); }
th button[data-order=descending]::after { content: " \25be"; }
tbody { scroll-margin-top: 6rem; }
tbody:target > tr:first-child { outline: 2px solid var(--link); }
.facts td { border: 0; white-space: normal; background: var(--band); }
dl {
  display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem;
  margin: .25rem 0 .5rem 1.1rem;
}
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
code { font-family: ui-monospace, monospace; user-select: all; }
a { color: var(--link); }
)css";

inline constexpr llvm::StringLiteral kScript = R"js(
"use strict";
const form = document.getElementById("filters");
const text = document.getElementById("text");
const shown = document.getElementById("shown");
const table = document.querySelector("table");
const choices = [...form.querySelectorAll("select")];
const ops = [...table.tBodies];

const cell = (op, column) =>
  op.rows[0].querySelector(`[data-column="${column}"]`).textContent;

function open(op, isOpen) {
  op.querySelector("th button").setAttribute("aria-expanded", isOpen);
  op.rows[1].hidden = !isOpen;
}

function filter() {
  const words = text.value.toLowerCase().split(/\s+/).filter((word) => word);
  let count = 0;
  for (const op of ops) {
    const content = op.textContent.toLowerCase();
    op.hidden = !(words.every((word) => content.includes(word)) &&
      choices.every((choice) => !choice.value ||
        cell(op, choice.dataset.column) === choice.value));
    count += !op.hidden;
  }
  shown.textContent = `${count} of ${ops.length} ops`;
}

function sort(column) {
  const button = table.tHead.rows[0].cells[column].firstElementChild;
  const ascending = button.dataset.order !== "ascending";
  for (const other of table.tHead.querySelectorAll("button"))
    delete other.dataset.order;
  button.dataset.order = ascending ? "ascending" : "descending";
  const key = (op) => op.rows[0].cells[column].textContent;
  const sorted = [...ops].sort((a, b) =>
    key(a).localeCompare(key(b), undefined, { numeric: true }));
  table.append(...(ascending ? sorted : sorted.reverse()));
}

// Shows the op that a link leads to, even if the filter hides the op.
function follow() {
  const op = document.getElementById(location.hash.slice(1));
  if (!ops.includes(op)) return;
  op.hidden = false;
  open(op, true);
  op.scrollIntoView({ block: "start" });
}

for (const op of ops) {
  open(op, false);
  const button = op.querySelector("th button");
  button.addEventListener("click", () =>
    open(op, button.getAttribute("aria-expanded") !== "true"));
}
[...table.tHead.rows[0].cells].forEach((header, column) =>
  header.firstElementChild.addEventListener("click", () => sort(column)));
form.addEventListener("input", filter);
form.addEventListener("reset", () => setTimeout(filter));
form.addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", follow);
form.hidden = false;
filter();
follow();
)js";

} // namespace mpc::page

#endif // MPC_COMPILER_PRECISION_DECISIONPAGEPARTS_H
