import { useEffect, useRef, useState } from "react";
import type { HarnessPart } from "../../client/src/index.js";
import { Icon } from "../shell/icon.js";

type File = Extract<HarnessPart, { type: "file" }>;

const PICTURES = /^image\/(?:png|jpe?g|gif|webp)$/;
const PICTURE_WIDTH_MAX = 720;

export function FilePart({ file }: { file: File }) {
  if (file.data && PICTURES.test(file.mediaType)) return <PictureFile file={file} data={file.data} />;
  return <FileName file={file} />;
}

function FileName({ file }: { file: File }) {
  return (
    <p className="file">
      <Icon name="read" /> {file.name || file.url || file.mediaType} <span className="faint">{file.mediaType}</span>
    </p>
  );
}

/** Painted, not loaded: the page's policy lets no picture come from anywhere, not even from its own data. */
function PictureFile({ file, data }: { file: File; data: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    let isGone = false;
    paint(data, file.mediaType, () => (isGone ? null : canvas.current)).catch(() => !isGone && setBroken(true));
    return () => {
      isGone = true;
    };
  }, [data, file.mediaType]);
  if (isBroken) return <FileName file={file} />;
  return <canvas ref={canvas} className="picture" role="img" aria-label={file.name || "picture"} width={1} height={1} />;
}

async function paint(data: string, mediaType: string, target: () => HTMLCanvasElement | null): Promise<void> {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], { type: mediaType }));
  const canvas = target();
  if (!canvas) return;
  const scale = Math.min(1, PICTURE_WIDTH_MAX / picture.width);
  canvas.width = Math.round(picture.width * scale);
  canvas.height = Math.round(picture.height * scale);
  canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
}
