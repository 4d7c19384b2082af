/** Markdown that an agent wrote: nothing in it runs, loads or leads anywhere but to a page of the web. */

import { memo, useState, type ReactNode } from "react";
import ReactMarkdown, { type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import { Code } from "./code.js";
import { BlockSplitter, type Block } from "./blocks.js";

/** A block that grows beyond this is shown as it is until it is done: parsing it anew each frame would stutter. */
const PARSED_WHILE_GROWING_MAX = 12_000;

const PLUGINS = [remarkGfm];
const SAFE_LINK = /^(?:https?|mailto):/i;

function Link({ href, children }: { href?: string | undefined; children?: ReactNode }) {
  if (!href || !SAFE_LINK.test(href)) return <span className="dead-link">{children}</span>;
  return (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow ugc" title={href}>
      {children}
    </a>
  );
}

/** Pictures are not loaded: that would tell somebody else that this was read. */
function Picture({ src, alt }: { src?: string | Blob | undefined; alt?: string | undefined }) {
  const address = typeof src === "string" ? src : "";
  return <Link href={address}>{alt || address || "picture"}</Link>;
}

const COMPONENTS: Components = {
  a: ({ href, children }) => <Link href={href}>{children}</Link>,
  img: ({ src, alt }) => <Picture src={src} alt={alt} />,
  table: ({ children }) => (
    <div className="table-frame">
      <table>{children}</table>
    </div>
  ),
  pre: ({ children }) => <>{children}</>,
  code: ({ className, children }) => {
    const text = String(children ?? "");
    const language = /language-(\S+)/.exec(className ?? "")?.[1];
    if (!language && !text.includes("\n")) return <code>{children}</code>;
    return <Code source={text.replace(/\n$/, "")} language={language ?? ""} />;
  },
  input: ({ checked }) => <input type="checkbox" checked={!!checked} readOnly disabled />,
};

const Parsed = memo(function Parsed({ text }: { text: string }) {
  return (
    <ReactMarkdown remarkPlugins={PLUGINS} components={COMPONENTS}>
      {text}
    </ReactMarkdown>
  );
});

/** So many blocks are one piece of the page: fewer to compare with each frame, and to watch for coming into sight. */
const BLOCKS_PER_PIECE = 12;

interface PieceProps {
  readonly blocks: readonly Block[];
  readonly isGrowing: boolean;
}

/** The splitter keeps the blocks that are done, so that comparing the ends compares all. */
function isSamePiece(before: PieceProps, after: PieceProps): boolean {
  return (
    before.isGrowing === after.isGrowing &&
    before.blocks.length === after.blocks.length &&
    before.blocks[0] === after.blocks[0] &&
    before.blocks.at(-1) === after.blocks.at(-1)
  );
}

const Piece = memo(function Piece({ blocks, isGrowing }: PieceProps) {
  return (
    <div className="piece">
      {blocks.map((block, index) => {
        if (block.code) return <Code key={block.start} source={block.code.source} language={block.code.language} />;
        const grows = isGrowing && index === blocks.length - 1;
        if (grows && block.text.length > PARSED_WHILE_GROWING_MAX)
          return (
            <p key={block.start} className="unparsed">
              {block.text}
            </p>
          );
        return <Parsed key={block.start} text={block.text} />;
      })}
    </div>
  );
}, isSamePiece);

/** `isGrowing`: more is to come, at the end. */
export const Markdown = memo(function Markdown({ text, isGrowing = false }: { text: string; isGrowing?: boolean }) {
  const [splitter] = useState(() => new BlockSplitter());
  const blocks = splitter.split(text);
  const pieces = Array.from({ length: Math.ceil(blocks.length / BLOCKS_PER_PIECE) }, (_, index) =>
    blocks.slice(index * BLOCKS_PER_PIECE, (index + 1) * BLOCKS_PER_PIECE),
  );
  return (
    <div className="markdown" data-growing={isGrowing || undefined}>
      {pieces.map((piece, index) => (
        <Piece key={index} blocks={piece} isGrowing={isGrowing && index === pieces.length - 1} />
      ))}
    </div>
  );
});
