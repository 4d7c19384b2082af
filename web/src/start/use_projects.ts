import { useEffect, useState } from "react";
import { api, type Project } from "../api.js";

/** Folders of recent sessions. */
export function useProjects(): readonly Project[] {
  const [projects, setProjects] = useState<readonly Project[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    api.projects(abort.signal).then((found) => setProjects(found.projects), () => undefined); // then a folder is typed
    return () => abort.abort();
  }, []);
  return projects;
}

const PAUSE_MS = 250;

/** The folder that is chosen; null while it is not known, or not shown by the server. */
export function useProject(folder: string): Project | null {
  const [project, setProject] = useState<Project | null>(null);
  useEffect(() => {
    setProject(null);
    if (!folder) return undefined;
    const abort = new AbortController();
    const timer = setTimeout(() => api.project(folder, abort.signal).then(setProject, () => undefined), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [folder]);
  return project;
}
