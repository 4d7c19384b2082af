import type { HarnessFilePart } from "../../client/src/index.js";
import { Picture } from "../files/picture.js";
import { PICTURES } from "../files/pictures.js";
import { Icon } from "../shell/icon.js";
import { inOneLine } from "../text/unseen.js";

export function FilePart({ file }: { file: HarnessFilePart }) {
  const name = <FileName file={file} />;
  if (!file.data || !PICTURES.test(file.mediaType)) return name;
  return <Picture data={file.data} mediaType={file.mediaType} name={file.name} instead={name} />;
}

function FileName({ file }: { file: HarnessFilePart }) {
  return (
    <p className="file">
      <Icon name="read" /> {inOneLine(file.name || file.url || file.mediaType)} <span className="faint">{file.mediaType}</span>
    </p>
  );
}
