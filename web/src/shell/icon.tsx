/** The page's few signs, drawn with the text's own colour. */

const PATHS = {
  agent: "M8 2.5v2M4 4.5h8v8H4zM6.5 8v1M9.5 8v1M2 8v2M14 8v2",
  ask: "M3 3h10v7.5H7.5L4.5 13v-2.5H3zM6.5 5.6a1.5 1.5 0 1 1 1.9 1.6c-.3.1-.4.3-.4.6M8 9.1v.1",
  attach: "m7 9 4-4a1.8 1.8 0 0 1 2.5 2.500L8 13a3.200 3.200 0 0 1-4.500-4.500l5-5",
  back: "M10 3 5 8l5 5",
  bell: "M4.5 11V7a3.5 3.5 0 0 1 7 0v4l1 1h-9zM7 13.6h2",
  branch: "M5 3v7M5 12.9a1.4 1.4 0 1 0 0-2.8 1.4 1.4 0 0 0 0 2.8M11 6.4A1.4 1.4 0 1 0 11 3.6a1.4 1.4 0 0 0 0 2.8M11 6.5c0 2.5-6 1.500-6 3.6",
  caret: "m4 6 4 4 4-4",
  check: "m3 8.5 3.2 3L13 4.5",
  chevron: "m6 4 4 4-4 4",
  clock: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 5v3.2l2 1.3",
  close: "m4 4 8 8M12 4l-8 8",
  command: "m3 4 4 4-4 4M8.5 12H13",
  commit: "M8 5.500a2.500 2.500 0 1 0 0 5 2.500 2.500 0 0 0 0-5M2 8h3.500M10.500 8H14",
  copy: "M6 6h7v7H6zM10 6V3H3v7h3",
  diff: "M8 2.5v6M5 5.5h6M5 12h6",
  down: "M8 3v9M4 8.5 8 12l4-3.5",
  eye: "M1.800 8C3.500 5 5.500 3.800 8 3.800S12.500 5 14.200 8C12.500 11 10.500 12.200 8 12.200S3.500 11 1.800 8M8 6.300a1.700 1.700 0 1 0 0 3.400 1.700 1.700 0 0 0 0-3.400",
  fetch: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M2.5 8h11M8 2.5c-3.5 3.5-3.5 7.5 0 11M8 2.500c3.5 3.5 3.5 7.5 0 11",
  filter: "M2.500 4h11M4.500 8h7M6.500 12h3",
  fleet: "M3 3h4v4H3zM9 3h4v4H9zM3 9h4v4H3zM9 9h4v4H9z",
  folder: "M2.5 4h4l1.5 1.7h5.5V12.500h-11z",
  inbox: "M2.5 9.5 4.5 3.5h7l2 6v3h-11zM2.5 9.5H6c0 1.2.8 1.8 2 1.8s2-.6 2-1.8h3.5",
  keys: "M2 4.500h12v7H2zM4.5 7h.1M7 7h.1M9.5 7h.1M11.9 7h.1M5 9.500h6",
  list: "M6 4h7M6 8h7M6 12h7M3 4h.1M3 8h.1M3 12h.1",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h11",
  moon: "M13 9.500A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5",
  more: "M3.500 8h.1M8 8h.1M12.500 8h.1",
  note: "M3 3.500h10v7H7.500L4.500 13v-2.500H3z",
  offline: "M3 3l10 10M5 8h.1M8 11.500v.1",
  open: "M6.5 3.500H3.500v9h9v-3M9 3.500h3.500V7M12.500 3.500 7.500 8.500",
  panel: "M2.5 3h11v10h-11zM10 3v10",
  pause: "M5.5 4v8M10.5 4v8",
  play: "M5 3.500v9l7-4.500z",
  plus: "M8 3v10M3 8h10",
  queue: "M3 4h10M3 8h6M3 12h6M12 9v4M10 11h4",
  read: "M4 2.500h5l3 3v8H4zM9 2.500v3h3M6 8.500h4M6 11h4",
  search: "M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8M10 10l3.5 3.5",
  send: "M8 13V3.500M4 7l4-3.500L12 7",
  settings: "M2.5 4.5h6M11.5 4.500h2M2.5 11.5h2M7.5 11.5h6M10 3v3M6 10v3",
  skill: "m8 2.5 1.7 3.6 3.8.5-2.8 2.7.7 3.900L8 11.300l-3.4 1.9.7-3.900L2.5 6.600l3.8-.500z",
  spawn: "M4 3v6a2 2 0 0 0 2 2h6M9.5 8.5 12 11l-2.5 2.5",
  steer: "M3 12c0-5 3-6 9-6M9 3l3 3-3 3",
  stop: "M4.5 4.500h7v7h-7z",
  sun: "M8 5.500a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M8 1.500v1.500M8 13v1.500M1.5 8H3M13 8h1.500M3.4 3.400l1 1M11.6 11.600l1 1M12.6 3.400l-1 1M4.4 11.600l-1 1",
  tool: "M10.5 3a3 3 0 0 0-3.7 3.900L3 10.7 5.3 13l3.8-3.800A3 3 0 0 0 13 5.500l-1.9 1.9-1.5-.9-.5-1.600z",
  undo: "M5.500 4 2.700 6.700l2.800 2.800M3 6.700h6.500a3.200 3.200 0 0 1 0 6.400H6",
  usage: "M3 13V8M6.5 13V3.5M10 13V6.5M13.2 13V10",
  warning: "M8 3 2.5 13h11zM8 7v2.800M8 11.500v.1",
  wide: "M6.500 3.500H3.500v9h9v-3M9 3.500h3.500V7M12.500 3.500 7.500 8.500",
  write: "m3 13 .7-3L10.5 3.200l2.3 2.300L6 12.300z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, isSmall = false }: { readonly name: IconName; readonly isSmall?: boolean }) {
  return (
    <svg className={isSmall ? "icon s" : "icon"} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
