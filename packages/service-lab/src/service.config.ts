import { subscribe } from "node:diagnostics_channel"
import type { Server } from "node:net"
import type { KilnConfig } from "@kiln/cli"

// A test run may be killed itself: what it started must not outlive it.
const runner = Number(process.env["CONTRACT_RUNNER"])
setInterval(() => process.ppid !== runner && process.kill(process.pid, "SIGKILL"), 250).unref()

// What the process says on its standard output is its public URL, and tests must find it where it is.
subscribe("tracing:net.server.listen:asyncEnd", (message) => {
  const address = (message as { readonly server: Server }).server.address()
  if (address !== null && typeof address === "object") process.stderr.write(`contract: port ${address.port}\n`)
})

/** The bounds that a table of the contract asks for. */
const config: KilnConfig = { engine: JSON.parse(process.env["CONTRACT_ENGINE"] ?? "{}") }

export default config
