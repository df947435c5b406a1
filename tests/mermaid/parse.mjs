// What mermaid's parser reads in diagrams. A text is a list of pieces: strings, and the numbers of characters that were
// written `#NUMBER;`, which stay numbers because two halves of a character would become one in a string.
import { answerEach, mermaid, readHtml } from "./dom.mjs";

const ARROWS = {
  SOLID: "->>",
  DOTTED: "-->>",
  SOLID_OPEN: "->",
  DOTTED_OPEN: "-->",
  SOLID_CROSS: "-x",
  DOTTED_CROSS: "--x",
  SOLID_POINT: "-)",
  DOTTED_POINT: "--)",
};
const LAST_CHARACTER = 0x10ffff;

// The parser keeps `#34;` as `ﬂ°°34¶ß` and `#quot;` as `ﬂ°quot¶ß`; what draws a diagram makes entities of HTML of them.
const NUMBERED = /ﬂ°°\+?(\d+)¶ß/;

function nameEntities(text) {
  return text.replaceAll("ﬂ°°", "&#").replaceAll("ﬂ°", "&").replaceAll("¶ß", ";");
}

function readNumber(digits) {
  return Number(digits) <= LAST_CHARACTER ? Number(digits) : "\ufffd";
}

/** A text that is kept as HTML. */
function readPieces(html) {
  return html.split(NUMBERED).map((part, at) => (at % 2 ? readNumber(part) : readHtml(nameEntities(part))));
}

/** A text that is drawn as it stands, except that `<br>` breaks it. */
function readPlain(text) {
  const escaped = (text ?? "").replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  return readPieces(escaped.replace(/&lt;br\s*\/?>/gi, "<br>"));
}

function readFlowchart(db) {
  return {
    kind: "flowchart",
    direction: db.getDirection(),
    vertices: [...db.getVertices().values()].map(({ id, text }) => [id, readPieces(text)]),
    edges: db.getEdges().map(({ start, end, text }) => [start, end, readPieces(text)]),
  };
}

function readSequence(db) {
  const nameOf = Object.fromEntries(Object.entries(db.LINETYPE).map(([name, number]) => [number, name]));
  const lines = db.getMessages().map((each) => ({ ...each, name: nameOf[each.type] }));
  return {
    kind: "sequence",
    participants: [...db.getActors()].map(([id, { description }]) => [id, readPlain(description)]),
    messages: lines
      .filter(({ name }) => name !== "NOTE")
      .map(({ from, to, message, name }) => [from ?? null, to ?? null, ARROWS[name] ?? name, readPlain(message)]),
    notes: lines.filter(({ name }) => name === "NOTE").map(({ from, to, message }) => [from, to, readPlain(message)]),
  };
}

// Nothing else in a text sets anything beside its diagram, and to parse every text twice takes twice the time.
const SETTING = /%%\s*\{|^\s*---/;

async function readConfig(text) {
  mermaid.mermaidAPI.reset();
  return SETTING.test(text) ? (await mermaid.parse(text)).config : {};
}

const READERS = { "flowchart-v2": readFlowchart, sequence: readSequence };

await answerEach(async (text) => {
  const config = await readConfig(text);
  const { type, db } = await mermaid.mermaidAPI.getDiagramFromText(text);
  if (!(type in READERS)) {
    throw new Error(`a diagram of the kind ${type} is not read here`);
  }
  return { config, ...READERS[type](db) };
});
