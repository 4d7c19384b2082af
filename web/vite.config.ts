import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const SERVER = process.env.HARNESS_URL ?? "http://127.0.0.1:8765";

export default defineConfig({
  base: "./",
  plugins: [react()],
  // Mermaid asks for an older one, which would be there twice.
  resolve: { dedupe: ["katex"] },
  build: {
    outDir: "../src/harness/interfaces/server/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    // Everything is a file of its own: the page's policy allows no `data:` and nothing inline.
    assetsInlineLimit: 0,
    license: { fileName: "licenses.md" },
    chunkSizeWarningLimit: 1_000,
  },
  server: { proxy: { "/api": SERVER, "/ws": { target: SERVER, ws: true } } },
});
