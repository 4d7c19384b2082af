import { Component, type ReactNode } from "react";

/** The page itself failed: say so, and offer the one thing that helps. */
export class Breakdown extends Component<{ readonly children: ReactNode }, { readonly message: string }> {
  override state = { message: "" };

  static getDerivedStateFromError(error: unknown): { message: string } {
    return { message: String(error) };
  }

  override render(): ReactNode {
    if (!this.state.message) return this.props.children;
    return (
      <div className="placeholder" role="alert">
        <h2>Something went wrong</h2>
        <p className="faint">{this.state.message}</p>
        <p>Your conversations are safe on the server.</p>
        <button type="button" className="button primary" onClick={() => window.location.reload()}>
          Reload
        </button>
      </div>
    );
  }
}
