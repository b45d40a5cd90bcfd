import { connect } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { randomFrom } from "../../crash/support/random.ts"
import { diceFrom, type Plan, shapes, type Weapons } from "./shapes.ts"

/** Milliseconds a connection may last, whatever the server does: it is closed from here then. */
const longestMs = 20_000

export interface AttackOptions {
  readonly port: number
  readonly connections: number
  readonly seed: number
  readonly weapons: Weapons
  /** Connections open at once; default 16. */
  readonly concurrency?: number
  /** Asked before each connection: the target has gone. */
  readonly isOver?: () => boolean
  /** Without it, all shapes in turn. */
  readonly only?: string
}

export interface AttackReport {
  readonly connections: number
  /** Connections that the target did not accept or that lasted too long. */
  readonly refused: number
  readonly overdue: number
  /** The first of those that lasted too long, as shape and index. */
  readonly firstOverdue: string | undefined
  readonly bytesRead: number
}

/** Opens connections to a port on loopback and does with each what its shape says. Connection n follows from seed and n alone. */
export const attack = async ({
  concurrency = 16,
  connections,
  isOver = () => false,
  only,
  port,
  seed,
  weapons,
}: AttackOptions): Promise<AttackReport> => {
  const chosen = Object.entries(shapes).filter(([name]) => only === undefined || name === only)
  const report = { connections: 0, refused: 0, overdue: 0, firstOverdue: undefined as string | undefined, bytesRead: 0 }
  const one = async (index: number) => {
    const dice = diceFrom(randomFrom((seed * 0x9e37_79b1 + index) >>> 0))
    const shape = chosen[index % chosen.length]
    if (shape === undefined) throw new Error(`no shape is called ${only}`)
    const { bytesRead, outcome } = await carryOut(port, shape[1](dice, weapons))
    report.connections++
    report.bytesRead += bytesRead
    if (outcome !== "closed") report[outcome]++
    if (report.overdue > 0) report.firstOverdue ??= `${shape[0]} ${index}`
  }
  let next = 0
  const lane = async () => {
    while (next < connections && !isOver()) await one(next++)
  }
  await Promise.all(Array.from({ length: concurrency }, lane))
  return report
}

/** Resolves once the connection is gone. */
const carryOut = async (port: number, { bytes, end, lingerMs, reads, writing }: Plan) => {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true }).setNoDelay(true)
  let bytesRead = 0
  let outcome: "closed" | "refused" | "overdue" = "closed"
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()))
  socket.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "ECONNREFUSED") outcome = "refused"
  })
  const overdue = setTimeout(() => {
    outcome = "overdue"
    socket.destroy()
  }, longestMs)
  if (reads) socket.on("data", (data) => (bytesRead += data.length))
  else socket.pause()
  // The other side has closed the connection.
  socket.on("end", () => socket.end())
  if (writing === "whole") socket.write(bytes)
  else if (writing === "bytewise")
    for (let at = 0; at < bytes.length && !socket.destroyed; at++) {
      socket.write(bytes.subarray(at, at + 1))
      if (at % 8 === 0) await sleep(0)
    }
  else {
    socket.write(bytes.subarray(0, writing.breakAt))
    await sleep(lingerMs)
    if (!socket.destroyed) socket.write(bytes.subarray(writing.breakAt))
  }
  await sleep(lingerMs)
  if (end === "reset") socket.resetAndDestroy()
  else if (end === "close" || !reads) socket.destroy()
  else socket.end()
  await closed
  clearTimeout(overdue)
  return { bytesRead, outcome }
}
