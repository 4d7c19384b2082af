/** Pictures that may be painted: kinds without scripts, and none that would fill the memory. */

export const PICTURES = /^image\/(?:png|jpe?g|gif|webp)$/;
const BYTES_MAX = 8_000_000;
const PIXELS_MAX = 40_000_000;
const DATA_ADDRESS = /^data:(image\/(?:png|jpe?g|gif|webp));base64,([A-Za-z0-9+/]+={0,2})$/;

export interface PictureData {
  readonly mediaType: string;
  /** Base64. */
  readonly data: string;
}

/** The picture that an address holds itself; null for every other address. */
export function pictureIn(address: string): PictureData | null {
  if (address.length > BYTES_MAX * 1.4) return null;
  const found = DATA_ADDRESS.exec(address);
  return found ? { mediaType: found[1]!, data: found[2]! } : null;
}

/** Throws for what is too large, or no picture. */
export async function decoded({ mediaType, data }: PictureData): Promise<ImageBitmap> {
  if (data.length > BYTES_MAX * 1.4) throw new Error("too large");
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const [width, height] = sizeOf(bytes);
  if (!(width * height <= PIXELS_MAX)) throw new Error("too large, or no picture");
  return createImageBitmap(new Blob([bytes as BlobPart], { type: mediaType }));
}

/** Width and height from the header of the file, before anything is unpacked; NaN where it does not. */
export function sizeOf(bytes: Uint8Array): readonly [number, number] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const ascii = (from: number, length: number) => String.fromCharCode(...bytes.subarray(from, from + length));
  try {
    if (ascii(1, 3) === "PNG") return [view.getUint32(16), view.getUint32(20)];
    if (ascii(0, 3) === "GIF") return [view.getUint16(6, true), view.getUint16(8, true)];
    if (ascii(0, 4) === "RIFF" && ascii(8, 4) === "WEBP") return webpSize(view, ascii(12, 4));
    if (view.getUint16(0) === 0xffd8) return jpegSize(view);
  } catch {
    // shorter than it should be
  }
  return [NaN, NaN];
}

function webpSize(view: DataView, kind: string): readonly [number, number] {
  const three = (at: number) => view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
  if (kind === "VP8X") return [three(24) + 1, three(27) + 1];
  if (kind === "VP8 ") return [view.getUint16(26, true) & 0x3fff, view.getUint16(28, true) & 0x3fff];
  const packed = view.getUint32(21, true);
  return [(packed & 0x3fff) + 1, ((packed >>> 14) & 0x3fff) + 1];
}

function jpegSize(view: DataView): readonly [number, number] {
  for (let at = 2; ; ) {
    const marker = view.getUint8(at + 1);
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) return [view.getUint16(at + 7), view.getUint16(at + 5)];
    at += marker === 0xff ? 1 : 2 + view.getUint16(at + 2);
  }
}
