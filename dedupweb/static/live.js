// Renews the overview while it is looked at.
(() => {
  const live = document.getElementById("live");
  if (!live) return;
  let source;
  const stop = () => { source?.close(); source = undefined; };
  const look = () => {
    if (document.hidden) return stop();
    if (source) return;
    source = new EventSource("live");
    source.onmessage = (event) => { live.innerHTML = event.data; };
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", look);
  look();
})();
