import { defineConfig } from "vite";

export default defineConfig({
  build: {
    lib: { entry: "src/index.ts", formats: ["es"], fileName: "harness-client" },
    emptyOutDir: false,
    minify: false,
    target: "es2022",
  },
});
