import { useEffect, useRef, useState, type ReactNode } from "react";
import { inOneLine } from "../text/unseen.js";
import { decoded } from "./pictures.js";

const WIDTH_MAX = 720;

interface PictureProps {
  readonly data: string;
  readonly mediaType: string;
  readonly name: string;
  /** Shown when it cannot be painted. */
  readonly instead: ReactNode;
}

/** Painted, not loaded: the page's policy lets no picture come from anywhere, not even from its own data. */
export function Picture({ data, mediaType, name, instead }: PictureProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [isBroken, setBroken] = useState(false);
  useEffect(() => {
    let isGone = false;
    decoded({ data, mediaType }).then(
      (picture) => !isGone && canvas.current && paint(picture, canvas.current),
      () => !isGone && setBroken(true),
    );
    return () => {
      isGone = true;
    };
  }, [data, mediaType]);
  if (isBroken) return instead;
  return <canvas ref={canvas} className="picture" role="img" aria-label={inOneLine(name) || "picture"} width={1} height={1} />;
}

function paint(picture: ImageBitmap, canvas: HTMLCanvasElement): void {
  const scale = Math.min(1, WIDTH_MAX / picture.width);
  canvas.width = Math.max(1, Math.round(picture.width * scale));
  canvas.height = Math.max(1, Math.round(picture.height * scale));
  canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
}
