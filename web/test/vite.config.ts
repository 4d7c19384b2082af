import { defineConfig } from "vite";

export default defineConfig({
  root: "test",
  logLevel: "warn",
  build: { lib: { entry: "subject.ts", formats: ["es"], fileName: "subject" }, minify: false, target: "es2022" },
});
