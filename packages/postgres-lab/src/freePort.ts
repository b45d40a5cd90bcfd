import { randomInt } from "node:crypto"
import { createServer } from "node:net"

/**
 * Returns a free TCP port of 127.0.0.1.
 *
 * The port is below the system's range for local ports of outgoing connections (from 32768 on Linux, 49152 elsewhere).
 * Otherwise a client that keeps connecting to a stopped server would eventually be assigned the server's port, and the
 * server could not start again.
 */
export const freePort = async (): Promise<number> => {
  const port = randomInt(20_000, 32_000)
  return (await isFree(port)) ? port : freePort()
}

const isFree = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const probe = createServer()
      .once("error", () => resolve(false))
      .listen(port, "127.0.0.1", () => probe.close(() => resolve(true)))
  })
