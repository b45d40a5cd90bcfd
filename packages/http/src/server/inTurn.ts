import type { NodeListener, NodeRequest, NodeResponse } from "./NodeExchange.ts"
import { ownSocket, ReadingHold } from "./holdReading.ts"
import type { Socket } from "node:net"

/** Maximum number of waiting pipelined requests in the process, about 3 kB each. */
const maxWaiting = 2_000

/** The pipelined requests of one connection that wait for earlier ones to finish. */
interface Line {
  length: number
  readonly hold: ReadingHold
}

/**
 * Starts requests that arrived before the previous responses on their connections were sent, each after them: a pipelining
 * client has one request in progress at a time, and a client that does not read its responses causes no further work. While
 * requests wait, the connection is not read. Beyond 2,000 waiting requests in total, their connections are closed; clients may
 * repeat requests without a response.
 */
export const makeInTurn = () => {
  const lines = new WeakMap<Socket, Line>()
  let waiting = 0

  const lineOf = (socket: Socket): Line => {
    const known = lines.get(socket)
    if (known !== undefined) return known
    const line: Line = { length: 0, hold: new ReadingHold(socket) }
    lines.set(socket, line)
    // Requests that never started emit no event when the connection ends.
    socket.once("close", () => {
      waiting -= line.length
      line.length = 0
    })
    return line
  }

  return (request: NodeRequest, response: NodeResponse, begin: NodeListener): void => {
    const socket = ownSocket(request)
    if (socket === undefined) return begin(request, response)
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
      // A long queue must yield to the event loop between two requests.
      setImmediate(() => {
        if (socket.writable) begin(request, response)
      })
    })
  }
}
