import net from "node:net"

/** A socket that stays open while the processes that serve it restart, as systemd keeps it for `kiln-api@.socket`. */
export interface HeldSocket extends Disposable {
  readonly descriptor: number
  readonly port: number
}

interface ServerHandle {
  readonly fd: number
  readonly getsockname: (into: { port?: number }) => number
  readonly close: () => void
}

/**
 * Binds a socket to a free port of loopback, and never accepts on it. Node has no public function for that: `listen` would accept
 * the connections that belong to the processes.
 */
export const holdSocket = (): HeldSocket => {
  const create = Reflect.get(net, "_createServerHandle") as (
    host: string,
    port: number,
    family: 4,
  ) => ServerHandle | number
  const handle = create("127.0.0.1", 0, 4)
  if (typeof handle === "number") throw new Error(`cannot bind a socket: error ${handle}`)
  const address: { port?: number } = {}
  handle.getsockname(address)
  return { descriptor: handle.fd, port: address.port ?? 0, [Symbol.dispose]: () => handle.close() }
}

/** Returns a port that is free at the moment. */
export const freePort = (): number => {
  using socket = holdSocket()
  return socket.port
}
