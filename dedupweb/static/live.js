// Renews what is looked at, and leaves it alone while the reader is in it.
(() => {
  const live = () => document.getElementById("live");
  if (!live()) return;
  const busy = (part) => {
    const selection = getSelection();
    return part.contains(document.activeElement) || !selection.isCollapsed && part.contains(selection.anchorNode);
  };
  let asking = false;
  const renew = async () => {
    if (document.hidden || asking) return;
    asking = true;
    try {
      const answer = await fetch(location.href, {signal: AbortSignal.timeout(30_000)});
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of ["live", "tabs"]) {
        const part = document.getElementById(id), fresh = page.getElementById(id);
        if (!fresh) throw answer.status;
        if (!busy(part)) part.replaceWith(fresh);
      }
    } catch {
      live().dataset.old = "Not renewed: the console does not answer as before. Load the page anew.";
    }
    asking = false;
  };
  setInterval(renew, 5000);
  document.addEventListener("visibilitychange", renew);
})();
