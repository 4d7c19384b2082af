import { createRoot } from "react-dom/client";
import { App } from "./app.js";
import { enter } from "./login.js";
import { Breakdown } from "./shell/breakdown.js";
import { LoginPage } from "./shell/login_page.js";
import "./style/tokens.css";
import "./style/controls.css";
import "./style/parts.css";
import "./style/layout.css";
import "./style/inbox.css";
import "./style/ask.css";
import "./style/ask_subject.css";
import "./style/shown.css";

await enter();
createRoot(document.getElementById("page")!).render(
  <Breakdown>
    <LoginPage>
      <App />
    </LoginPage>
  </Breakdown>,
);
