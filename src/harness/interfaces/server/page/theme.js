// Before anything is painted: the theme that was chosen here last, where one was.
(function () {
  try {
    const theme = localStorage.getItem("harness.theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // No storage: the system's theme it is.
  }
})();
