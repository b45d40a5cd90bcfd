import type { NodeRequest, NodeResponse } from "./NodeExchange.ts"
import { ownSocket, ReadingHold } from "./holdReading.ts"
import type { Socket } from "node:net"

/** Pipelined requests that may wait in the process at once, about 3 kB each. */
const maxWaiting = 2_000

/** The pipelined requests of one connection that wait for earlier ones. */
interface Line {
  length: number
  readonly hold: ReadingHold
}

/**
 * Begins each request when the answers before it, on the same connection, were sent: a client that pipelines has one request at
 * a time in progress, and one that does not read its answers gets no further ones made. While any wait, the connection is not
 * read. Beyond 2,000 waiting requests in all, their connections are closed; a client may send unanswered requests again.
 */
export const makeInTurn = () => {
  const lines = new WeakMap<Socket, Line>()
  let waiting = 0

  const lineOf = (socket: Socket): Line => {
    const known = lines.get(socket)
    if (known !== undefined) return known
    const line: Line = { length: 0, hold: new ReadingHold(socket) }
    lines.set(socket, line)
    // Requests that never had their turn say nothing when the connection ends.
    socket.once("close", () => {
      waiting -= line.length
      line.length = 0
    })
    return line
  }

  return (request: NodeRequest, response: NodeResponse, begin: () => void): void => {
    const socket = ownSocket(request)
    // Node gives a response its socket when the one before it is sent.
    if (socket === undefined || response.socket !== null) return begin()
    if (socket.destroyed) return
    if (waiting >= maxWaiting) return void socket.destroy()
    const line = lineOf(socket)
    line.length++
    waiting++
    line.hold.hold()
    response.once("socket", () => {
      line.length--
      waiting--
      if (line.length === 0) line.hold.release()
      // A long line must leave the event loop to others between two of its requests.
      setImmediate(() => {
        if (socket.writable) begin()
      })
    })
  }
}
