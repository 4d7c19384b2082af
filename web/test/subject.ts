/** What the unit tests of the page are about, in one module that node can load. */

export { errorToShow } from "../src/conversation/shown_error.js";
export { BlockSplitter } from "../src/text/blocks.js";
export { coloured } from "../src/text/colouring.js";
export { isPatch, lineDiff, patchLines, withoutDistantLines } from "../src/text/line_diff.js";
export { changeOf } from "../src/tools/change.js";
export { sizeOf } from "../src/files/pictures.js";
export { besideCommand, commandIn } from "../src/relays/payload.js";
export { completed, referencesIn } from "../src/text/references.js";
export { inOneLine, revealed, stretchesOf } from "../src/text/unseen.js";
export { partialInput } from "../src/tools/partial_input.js";
export { operationsOf, progressOf, summaryOf } from "../src/tools/summary.js";
export { ago, cost, count, duration, money, roughly } from "../src/amounts.js";
export { Finder } from "../src/conversation/find.js";
export { textOf } from "../src/conversation/item_text.js";
export { ItemList } from "../src/conversation/items.js";
export { completed as completedPrompt, tokenAt } from "../src/prompt/completion.js";
export { folded, numberedLines, replacesAll } from "../src/inbox/patch.js";
export { allowsSeveral, choicesOf, fieldsOf, stepsOf } from "../src/inbox/question.js";
export { alikeIn, arranged, choicesIn, dayOf, groupsOf, openAsks, passes, projectOf, sectionsOf } from "../src/inbox/sections.js";
export { continuingAddress, inboxAddress, NO_FILTER, parse, reviewAddress, sessionAddress } from "../src/route.js";
export { PageSocket } from "../src/socket/page_socket.js";
export { SessionTransport } from "../src/socket/session_transport.js";
export { abilitiesOf, branchFor, nearestMode } from "../src/start/abilities.js";
export { ceilingOf, csvOf, lastDays, seriesOf, sourceOf, sumOf } from "../src/usage/bill.js";
