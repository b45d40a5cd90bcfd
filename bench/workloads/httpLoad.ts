import { connect, type Socket } from "node:net"

export interface LoadOptions {
  readonly port: number
  readonly connections: number
  readonly seconds: number
  /** Makes the bytes of each request. */
  readonly request: () => Buffer
  /** The status that every response must have. */
  readonly status: number
}

export interface Load {
  /** Responses per second. */
  readonly rate: number
  /** Latency of each response in milliseconds. */
  readonly latenciesMs: ReadonlyArray<number>
  /** The share of a core that this process used: near 1, it was what limited the rate. */
  readonly ofCore: number
}

const headEnd = Buffer.from("\r\n\r\n")

/** Returns the length of the first whole response in these bytes, or undefined. Throws for a status that is not expected. */
const responseLength = (bytes: Buffer, status: number): number | undefined => {
  const end = bytes.indexOf(headEnd)
  if (end === -1) return undefined
  const head = bytes.toString("latin1", 0, end)
  if (Number(head.slice(9, 12)) !== status) throw new Error(`expected status ${status}: ${bytes.toString()}`)
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length !== undefined) {
    const whole = end + headEnd.length + Number(length)
    return bytes.length >= whole ? whole : undefined
  }
  const last = bytes.indexOf("\r\n0\r\n\r\n", end, "latin1")
  return last === -1 ? undefined : last + 7
}

/** Keeps one request open on each connection until the time is over, and counts every response. Rejects on the first unexpected response. */
export const httpLoad = async (options: LoadOptions): Promise<Load> => {
  const latenciesMs: Array<number> = []
  const [from, before] = [performance.now(), process.cpuUsage()]
  const endsAt = from + options.seconds * 1_000
  const drive = (socket: Socket): Promise<void> =>
    new Promise((resolve, reject) => {
      let rest: Buffer = Buffer.alloc(0)
      let sentAt = performance.now()
      const send = (): void => {
        sentAt = performance.now()
        socket.write(options.request())
      }
      socket.on("error", reject)
      socket.on("close", () => reject(new Error("the server closed a connection")))
      socket.on("data", (piece: Buffer) => {
        rest = rest.length === 0 ? piece : Buffer.concat([rest, piece])
        try {
          const length = responseLength(rest, options.status)
          if (length === undefined) return
          rest = rest.subarray(length)
        } catch (error) {
          reject(error instanceof Error ? error : new Error("unexpected response", { cause: error }))
          return
        }
        const now = performance.now()
        latenciesMs.push(now - sentAt)
        if (now > endsAt) resolve()
        else send()
      })
      send()
    })
  const sockets = Array.from({ length: options.connections }, () => {
    const socket = connect({ host: "127.0.0.1", port: options.port, noDelay: true })
    return socket
  })
  try {
    await Promise.all(sockets.map((socket) => drive(socket)))
  } finally {
    for (const socket of sockets) socket.destroy()
  }
  const tookMs = performance.now() - from
  const { system, user } = process.cpuUsage(before)
  return { rate: latenciesMs.length / (tookMs / 1_000), latenciesMs, ofCore: (system + user) / 1_000 / tookMs }
}
