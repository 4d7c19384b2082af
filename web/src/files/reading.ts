/** Files as the server takes them: pictures, documents, sounds, and whatever is text. */

import type { Attachment } from "../../client/src/index.js";

/** The server takes messages of 4 MiB, and base64 makes three bytes four. */
export const ALL_BYTES_MAX = 2_800_000;
const PICTURE_BYTES_MAX = 900_000;
const PICTURE_EDGE_MAX = 2_000;
const PICTURES = /^image\/(?:png|jpeg|gif|webp)$/;
const OTHERS = /^(?:application\/pdf$|audio\/)/;

export async function readAttachment(file: File): Promise<Attachment> {
  if (PICTURES.test(file.type)) return attachment(file.name, await fitting(file));
  if (file.size > ALL_BYTES_MAX) throw new Error(`${file.name} is too large: a message takes ${megabytes(ALL_BYTES_MAX)}.`);
  if (OTHERS.test(file.type)) return attachment(file.name, file);
  if (!isText(await file.arrayBuffer())) throw new Error(`${file.name} is neither a picture, a PDF, a sound nor text.`);
  return attachment(file.name, new Blob([file], { type: "text/plain" }));
}

export function sizeOf({ data }: Attachment): number {
  return Math.floor((data.length * 3) / 4);
}

export function megabytes(bytes: number): string {
  return bytes < 100_000 ? `${Math.max(1, Math.round(bytes / 1000))} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

async function attachment(name: string, content: Blob): Promise<Attachment> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(`${name} could not be read.`));
    reader.readAsDataURL(content);
  });
  const data = url.slice(url.indexOf(",") + 1);
  if (!data) throw new Error(`${name} is empty.`);
  return { mediaType: content.type, name, data };
}

/** Models see no more than this of a picture, whatever its size. */
async function fitting(file: File): Promise<Blob> {
  if (file.size <= PICTURE_BYTES_MAX) return file;
  const picture = await createImageBitmap(file).catch(() => null);
  if (!picture) throw new Error(`${file.name} is no picture that this browser can read.`);
  const scale = Math.min(1, PICTURE_EDGE_MAX / Math.max(picture.width, picture.height));
  const canvas = new OffscreenCanvas(Math.round(picture.width * scale), Math.round(picture.height * scale));
  const context = canvas.getContext("2d");
  if (!context) throw new Error(`${file.name} is too large.`);
  context.fillStyle = "white"; // else what is transparent would be black
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob({ type: "image/jpeg", quality: 0.85 });
}

function isText(content: ArrayBuffer): boolean {
  try {
    return !new TextDecoder("utf-8", { fatal: true }).decode(content).includes("\0");
  } catch {
    return false;
  }
}
