/** Markdown that an agent wrote: nothing in it runs, loads or leads anywhere but to a page of the web. */

import { lazy, memo, Suspense, useMemo, useState, type ReactNode } from "react";
import ReactMarkdown, { type Components, type Options } from "react-markdown";
import remarkGfm from "remark-gfm";
import remarkMath from "remark-math";
import { Picture } from "../files/picture.js";
import { pictureIn } from "../files/pictures.js";
import { Code } from "./code.js";
import { BlockSplitter, type Block } from "./blocks.js";
import { marking } from "./marking.js";
import { withFormulas } from "./math.js";
import { completed, referencesIn, type References } from "./references.js";
import { Revealed } from "./revealed.js";
import { inOneLine, revealed } from "./unseen.js";

/** A block that grows beyond this is shown as it is until it is done: parsing it again each frame would stutter. */
const PARSED_WHILE_GROWING_MAX = 12_000;

const Formula = lazy(() => import("./formula.js"));
const Diagram = lazy(() => import("./diagram.js"));

const PLUGINS: NonNullable<Options["remarkPlugins"]> = [remarkGfm, withoutFootnotes, [remarkMath, { singleDollarTextMath: false }]];
/** A block knows of no footnote but its own: these are put where they belong here. */
function withoutFootnotes(this: { data(): object }): void {
  const data = this.data() as { micromarkExtensions?: unknown[] };
  (data.micromarkExtensions ??= []).push({ disable: { null: ["gfmFootnoteDefinition", "gfmFootnoteCall", "gfmPotentialFootnoteCall"] } });
}

/** A longer one is not drawn. */
const FORMULA_MAX = 4_000;

const SAFE_LINK = /^(?:https?|mailto):/i;

function Link({ href, children }: { href?: string | undefined; children?: ReactNode }) {
  if (!href || !SAFE_LINK.test(href)) return <span className="dead-link">{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow ugc" title={revealed(href)}>
      {children}
    </a>
  );
}

/** A picture that is in the text itself is painted. Others are not loaded: their server would learn that this was read. */
function MarkdownPicture({ src, alt }: { src?: string | Blob | undefined; alt?: string | undefined }) {
  const address = typeof src === "string" ? src : "";
  const own = pictureIn(address);
  const name = inOneLine(alt ?? "");
  if (own) return <Picture {...own} name={name} instead={<span className="dead-link">{name || "picture"}</span>} />;
  const host = hostOf(address);
  return (
    <Link href={address}>
      {name || "picture"} <span className="faint">(picture{host && ` at ${host}`}, not loaded)</span>
    </Link>
  );
}

function hostOf(address: string): string {
  return URL.canParse(address) ? new URL(address).host : "";
}

/** Whatever else an address is, `Link` and `MarkdownPicture` decide. */
function keepAddress(address: string): string {
  return SAFE_LINK.test(address) || pictureIn(address) ? address : "";
}

const COMPONENTS: Components = {
  a: ({ href, children }) => <Link href={href}>{children}</Link>,
  img: ({ src, alt }) => <MarkdownPicture src={src} alt={alt} />,
  table: ({ children }) => (
    <div className="table-frame">
      <table>{children}</table>
    </div>
  ),
  pre: ({ children }) => <>{children}</>,
  code: ({ className, children }) => {
    const text = String(children ?? "");
    const language = /language-(\S+)/.exec(className ?? "")?.[1];
    if (className?.includes("math-")) return <Mathematics source={text} isDisplay={className.includes("math-display")} />;
    if (!language && !text.includes("\n")) return (
        <code>
          <Revealed text={text} />
        </code>
      );
    return <Code source={text.replace(/\n$/, "")} language={language ?? ""} />;
  },
  input: ({ checked, "aria-label": name }) => <input type="checkbox" checked={!!checked} aria-label={name ?? "task"} readOnly disabled />,
};

/** As it was written until it can be drawn. */
function Mathematics({ source, isDisplay }: { source: string; isDisplay: boolean }) {
  const plain = (
    <code>
      <Revealed text={source} />
    </code>
  );
  if (source.length > FORMULA_MAX) return plain;
  return (
    <Suspense fallback={plain}>
      <Formula source={source} isDisplay={isDisplay} />
    </Suspense>
  );
}

/** A fenced block: a formula and a diagram are drawn once they are whole, everything else is code. */
function Fenced({ code }: { code: NonNullable<Block["code"]> }) {
  const { language, source, closed } = code;
  const plain = <Code source={source} language={language} />;
  if (!closed || !source.trim()) return plain;
  if (language.toLowerCase() === "math") return <Mathematics source={source} isDisplay />;
  if (language.toLowerCase() !== "mermaid") return plain;
  return (
    <Suspense fallback={plain}>
      <Diagram source={source} />
    </Suspense>
  );
}

const Parsed = memo(function Parsed({ text, notes }: { text: string; notes: string }) {
  return (
    <ReactMarkdown
      remarkPlugins={PLUGINS}
      rehypePlugins={[[marking, { notes: notes ? notes.split("\n") : [] }]]}
      components={COMPONENTS}
      urlTransform={keepAddress}
    >
      {withFormulas(text)}
    </ReactMarkdown>
  );
});

/** So many blocks are one piece of the page: fewer to compare with each frame, and to watch for coming into sight. */
const BLOCKS_PER_PIECE = 12;

interface PieceProps {
  readonly blocks: readonly Block[];
  readonly isGrowing: boolean;
  readonly references: References;
}

/** The splitter keeps the blocks that are done, so that comparing the ends compares all. */
function isSamePiece(before: PieceProps, after: PieceProps): boolean {
  return (
    before.isGrowing === after.isGrowing &&
    before.references === after.references &&
    before.blocks.length === after.blocks.length &&
    before.blocks[0] === after.blocks[0] &&
    before.blocks.at(-1) === after.blocks.at(-1)
  );
}

const Piece = memo(function Piece({ blocks, isGrowing, references }: PieceProps) {
  const notes = references.notes.join("\n");
  return (
    <div className="piece">
      {blocks.map((block, index) => {
        if (block.code) return <Fenced key={block.start} code={block.code} />;
        const grows = isGrowing && index === blocks.length - 1;
        if (grows && block.text.length > PARSED_WHILE_GROWING_MAX)
          return (
            <p key={block.start} className="unparsed">
              <Revealed text={block.text} kind="speech" />
            </p>
          );
        if (block.note)
          return (
            <div key={block.start} className="note">
              <sup className="note-mark">{inOneLine(block.note.label)}</sup>
              <div>
                <Parsed text={completed(block.note.body, references)} notes={notes} />
              </div>
            </div>
          );
        return <Parsed key={block.start} text={completed(block.text, references)} notes={notes} />;
      })}
    </div>
  );
}, isSamePiece);

/** `isGrowing`: more is to come, at the end. */
export const Markdown = memo(function Markdown({ text, isGrowing = false }: { text: string; isGrowing?: boolean }) {
  const [splitter] = useState(() => new BlockSplitter());
  const blocks = splitter.split(text);
  const references = useStable(referencesIn(blocks));
  const pieces = Array.from({ length: Math.ceil(blocks.length / BLOCKS_PER_PIECE) }, (_, index) =>
    blocks.slice(index * BLOCKS_PER_PIECE, (index + 1) * BLOCKS_PER_PIECE),
  );
  return (
    <div className="markdown" data-growing={isGrowing || undefined}>
      {pieces.map((piece, index) => (
        <Piece key={index} blocks={piece} isGrowing={isGrowing && index === pieces.length - 1} references={references} />
      ))}
    </div>
  );
});

/** The same object as long as its content is the same. */
function useStable(references: References): References {
  const key = JSON.stringify(references);
  return useMemo(() => references, [key]);
}
