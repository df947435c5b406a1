// mermaid with a page under it, and the one way in which the programs beside this file are asked and answer.
import { createInterface } from "node:readline";

import { JSDOM } from "jsdom";

const { window } = new JSDOM("");
export const { document } = window;

// No layout is made here, so everything that is drawn has one size.
window.SVGElement.prototype.getBBox = () => ({ x: 0, y: 0, width: 100, height: 20 });
window.SVGElement.prototype.getComputedTextLength = () => 100;
Object.assign(globalThis, {
  window,
  document,
  Element: window.Element,
  DOMParser: window.DOMParser,
  CSSStyleSheet: window.CSSStyleSheet,
});

// mermaid looks for the page while it is loaded. Its own limits stay as they are: they hold wherever it draws.
export const { default: mermaid } = await import("mermaid");
mermaid.initialize({ startOnLoad: false, logLevel: "fatal" });

/** Answer each line of JSON on stdin with one on stdout, as it comes; what `answer` throws is an answer too. */
export async function answerEach(answer) {
  for await (const line of createInterface({ input: process.stdin })) {
    let said;
    try {
      said = { ok: true, ...(await answer(JSON.parse(line))) };
    } catch (error) {
      said = { ok: false, error: String(error?.message ?? error) };
    }
    process.stdout.write(JSON.stringify(said) + "\n");
  }
}

/** The text that a reader sees of an element; each break in it is a newline. */
export function readText(element) {
  const copy = element.cloneNode(true);
  copy.querySelectorAll("br").forEach((each) => each.replaceWith("\n"));
  return copy.textContent;
}

/** The text of a piece of HTML. */
export function readHtml(html) {
  if (!/[&<]/.test(html)) {
    return html;
  }
  const template = document.createElement("template");
  template.innerHTML = html;
  return readText(template.content);
}
