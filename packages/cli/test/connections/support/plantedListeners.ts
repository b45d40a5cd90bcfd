// Preloaded into a process (`node --import`), to plant a bug: listeners to the errors of a request are removed when its client
// goes, before the error arrives, which then is an exception that nothing catches.
import { IncomingMessage } from "node:http"

const on = Reflect.get(IncomingMessage.prototype, "on")

IncomingMessage.prototype.on = function (event: string, listener: Parameters<typeof on>[1]) {
  // Node destroys a request with an error only if somebody listens at that moment.
  if (event === "error")
    this.once("aborted", () => process.nextTick(() => process.nextTick(() => this.off("error", listener))))
  return on.call(this, event, listener)
}
