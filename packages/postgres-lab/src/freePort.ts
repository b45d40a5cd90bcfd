import { randomInt } from "node:crypto"
import { createServer } from "node:net"

/**
 * A TCP port of 127.0.0.1 on which nothing listens.
 *
 * It lies below the range from which the system takes the local ports of outgoing connections (from 32768 on Linux,
 * 49152 elsewhere): a client that dials a stopped server again and again would otherwise get the server's own port for
 * itself one day, and the server could not come back.
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
