import { useEffect, useState, type FormEvent } from "react";
import { api } from "../api.js";
import { useInboxRow } from "../inbox/inbox_store.js";
import { withTag } from "../inbox/sections.js";
import { inboxAddress } from "../route.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";
import { useConversation } from "./context.js";

/** What a person calls the conversation by: given and taken here, and chosen by in the sidebar. */
export function Tags() {
  const { sessionId } = useConversation();
  const row = useInboxRow(sessionId);
  const [draft, setDraft] = useState("");
  const [given, setGiven] = useState<readonly string[] | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => setGiven(null), [row?.tags]);
  if (!row || row.history) return null;
  const tags = given ?? row.tags;
  const save = (wanted: readonly string[]) => {
    setGiven(wanted);
    setProblem("");
    api.tagSession(sessionId, wanted).catch((error: Error) => (setGiven(null), setProblem(error.message)));
  };
  const add = (event: FormEvent) => {
    event.preventDefault();
    save(withTag(tags, draft));
    setDraft("");
  };
  return (
    <section aria-label="Tags">
      <h2>Tags</h2>
      <ul className="tags">
        {tags.map((tag) => (
          <li key={tag} className="chip">
            <a href={inboxAddress({ tag })} title="All with this tag">
              # {inOneLine(tag)}
            </a>
            <button type="button" className="quiet small" onClick={() => save(tags.filter((one) => one !== tag))} aria-label={`Remove the tag ${inOneLine(tag)}`} title="Remove">
              <Icon name="close" isSmall />
            </button>
          </li>
        ))}
      </ul>
      <form onSubmit={add}>
        <input className="field" value={draft} maxLength={60} placeholder="Add a tag" aria-label="Add a tag" onChange={(event) => setDraft(event.target.value)} />
      </form>
      {problem && (
        <p className="bad small" role="alert">
          {problem}
        </p>
      )}
    </section>
  );
}
