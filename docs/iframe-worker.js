// Workers for pages that are read from files, where browsers refuse them: the script runs in a hidden frame. The site's search needs it.
if (location.protocol === "file:") window.Worker = class extends EventTarget {
  constructor(address) {
    super();
    this.frame = Object.assign(document.createElement("iframe"), {hidden: true});
    document.body.append(this.frame);
    this.receive = event => {
      if (event.source !== this.frame.contentWindow) return;
      const message = new MessageEvent("message", {data: event.data});
      this.dispatchEvent(message);
      this.onmessage?.(message);
    };
    addEventListener("message", this.receive);
    const inside = this.frame.contentDocument;
    inside.open();
    inside.write(`<!DOCTYPE html><html><body><script>
      postMessage = data => parent.postMessage(data, "*");
      importScripts = (...addresses) => addresses.reduce((before, address) => before.then(() => new Promise(done => {
        const script = document.createElement("script");
        script.src = address;
        script.addEventListener("load", done);
        document.body.append(script);
      })), Promise.resolve());
    </script></body></html>`);
    inside.close();
    this.ready = new Promise(done => {
      const script = inside.createElement("script");
      script.src = address;
      script.addEventListener("load", done);
      inside.body.append(script);
    });
  }
  postMessage(data) { this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", {data}))); }
  terminate() {
    removeEventListener("message", this.receive);
    this.frame.remove();
  }
};
