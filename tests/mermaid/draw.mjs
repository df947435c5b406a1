// What mermaid writes into the pictures it draws of diagrams: the texts a reader sees.
import { answerEach, document, mermaid, readText } from "./dom.mjs";

function texts(selector) {
  return [...document.querySelectorAll(selector)].map(readText);
}

function readNodes() {
  const nodes = [...document.querySelectorAll("g.node")];
  return nodes.map((node) => [/flowchart-(.*)-\d+$/.exec(node.id)[1], readText(node.querySelector(".nodeLabel"))]);
}

// Each participant is drawn twice, above and below its line.
function readParticipants() {
  const participants = [...document.querySelectorAll('[data-et="participant"]')];
  return participants.map((each) => [each.dataset.id, readText(each.querySelector("text.actor-box, text.actor-man"))]);
}

await answerEach(async (text) => {
  const { svg } = await mermaid.render("drawn", text);
  document.body.innerHTML = svg;
  return {
    labels: [...readNodes(), ...readParticipants()],
    messages: texts("text.messageText"),
    notes: texts("text.noteText"),
  };
});
