import type { HarnessState } from "../../client/src/index.js";
import { Icon } from "../shell/icon.js";
import { Revealed } from "../text/revealed.js";
import { revealed } from "../text/unseen.js";
import { useConversation } from "./context.js";

/** What is always allowed in this conversation; each grant can be revoked. */
export function Grants({ state }: { state: HarnessState }) {
  const { client } = useConversation();
  return (
    <section aria-label="Always allowed">
      <h2>
        Always allowed
        {state.grants.length > 1 && (
          <button type="button" className="quiet small" onClick={() => client.revoke()}>
            Revoke all
          </button>
        )}
      </h2>
      <ul className="grants">
        {state.grants.map(({ id, label }) => (
          <li key={id}>
            <span className="granted">
              <Revealed text={label} />
            </span>
            <button type="button" className="quiet small" onClick={() => client.revoke(id)} aria-label={`Revoke: ${revealed(label)}`} title="Revoke: ask again from now on">
              <Icon name="close" />
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
