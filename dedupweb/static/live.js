// Renews the overview while it is looked at, and leaves it alone while the reader is in it.
(() => {
  const live = document.getElementById("live");
  if (!live) return;
  let source;
  const stop = () => { source?.close(); source = undefined; };
  const busy = () => {
    const selection = getSelection();
    return live.contains(document.activeElement) || !selection.isCollapsed && live.contains(selection.anchorNode);
  };
  const look = () => {
    if (document.hidden) return stop();
    if (source) return;
    source = new EventSource("live" + location.search);
    source.onmessage = (event) => { if (!busy()) live.innerHTML = event.data; };
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", look);
  look();
})();
