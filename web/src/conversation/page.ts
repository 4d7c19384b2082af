/** The conversation with its styles: loaded when one is shown. */

import "../style/panel.css";
import "../style/thread.css";
import "../style/tools.css";
import "../style/dock.css";

export { Conversation } from "./conversation.js";
