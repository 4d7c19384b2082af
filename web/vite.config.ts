import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const SERVER = process.env.HARNESS_URL ?? "http://127.0.0.1:8765";

/** Modules of the first screen that other screens use too. */
const FIRST_SCREEN = /\/web\/(?:client\/src|src\/(?:amounts|api|route|login|shell|socket|inbox|sessions\/choices|changes\/diff_text|text\/(?:unseen|revealed|colouring|line_diff|marking)))|rolldown\/runtime|preload-helper|react\/(?:cjs|jsx)/;

export default defineConfig({
  base: "./",
  plugins: [react()],
  // Mermaid asks for an older one, which would be there twice.
  resolve: { dedupe: ["katex"] },
  build: {
    outDir: "../src/harness/server/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    // Everything is a file of its own: the page's policy allows no `data:` and nothing inline.
    assetsInlineLimit: 0,
    license: { fileName: "licenses.md" },
    chunkSizeWarningLimit: 1_000,
    // What the first screen needs anyway is in one file: two dozen small ones cost more over a network than they save.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "common", test: FIRST_SCREEN, minShareCount: 2 }] } } },
  },
  server: { proxy: { "/api": SERVER, "/ws": { target: SERVER, ws: true } } },
});
