// Before anything is painted: the theme that was chosen here last, or else the system's; and how close the rows are.
(function () {
  const root = document.documentElement;
  const read = (key) => {
    try {
      return localStorage.getItem(key);
    } catch {
      return null; // No storage.
    }
  };
  const theme = read("harness.theme");
  const isChosen = theme === "light" || theme === "dark";
  root.dataset.theme = isChosen ? theme : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  if (read("harness.density") === "compact") root.dataset.density = "compact";
})();
