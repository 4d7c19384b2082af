/** Instead of content: loading, nothing there, something wrong. */
export function Placeholder({ title, text, isBusy = false }: { title: string; text: string; isBusy?: boolean }) {
  return (
    <div className="placeholder" role="status">
      {isBusy && <span className="spinner" aria-hidden="true" />}
      {title && <h2>{title}</h2>}
      <p className="faint">{text}</p>
    </div>
  );
}
