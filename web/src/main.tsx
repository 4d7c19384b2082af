import { createRoot } from "react-dom/client";
import { App } from "./app.js";
import { Breakdown } from "./shell/breakdown.js";
import "./style/tokens.css";
import "./style/controls.css";
import "./style/layout.css";
import "./style/panel.css";
import "./style/thread.css";
import "./style/tools.css";
import "./style/dock.css";

createRoot(document.getElementById("page")!).render(
  <Breakdown>
    <App />
  </Breakdown>,
);
