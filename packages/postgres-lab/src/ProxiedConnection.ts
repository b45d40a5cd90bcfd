import { connect, type Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { isCancelRequest, isEncryptionRequest, type Message, messageReader, nameOf, statementReader } from "./wire.ts"

/** A fault of one statement: the connection is closed before the server receives it, or after the server responded and before the client gets the response. */
export interface Fault {
  readonly cut: "before" | "after"
  readonly happened: (statement: string) => void
  /** Called if the connection ended in another way before. */
  readonly missed: () => void
}

export interface ConnectionOptions {
  readonly client: Socket
  readonly target: { readonly host: string; readonly port: number }
  readonly delayMs: () => number
  /** Called for every client message, with its name in the protocol's documentation. */
  readonly onMessage: (name: string) => void
  /** Called for every statement before it is forwarded; returns the fault to inject, if any. */
  readonly onStatement: (text: string) => Fault | undefined
  /** Called when the client sends something while it awaits no response. */
  readonly onFlight: () => void
  /** Called when the server has ended a transaction, an implicit one included, in which statements ran. */
  readonly onTransaction: () => void
  readonly onClose: () => void
}

/** Sent ahead of another statement when ten seconds have passed, so it is not counted. */
const housekeeping = "DISCARD PLANS"

/** One client's connection through the proxy. When either side disconnects, the other side is disconnected too. */
export class ProxiedConnection {
  readonly #options: ConnectionOptions
  readonly #client: Socket
  readonly #toServer: (action: () => void) => void
  readonly #toClient: (action: () => void) => void
  readonly #statementOf = statementReader()
  #server: Socket | undefined
  #held = false
  /** Number of outstanding ReadyForQuery messages: one for the startup, each Query and each Sync. */
  #owed = 0
  #inFlight = false
  /** Whether a statement was sent since the last message that is owed a ReadyForQuery. */
  #sent = false
  /** The same for each of those messages, oldest first. */
  readonly #sentBefore: Array<boolean> = []
  /** Whether statements have run since the last transaction ended. */
  #hasRun = false
  /** Responses are withheld once the server has sent ReadyForQuery for everything before the statement. */
  #withhold: { readonly fault: Fault; readonly statement: string; before: number } | undefined

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#client = options.client
    this.#toServer = makeLine(options.delayMs)
    this.#toClient = makeLine(options.delayMs)
    const read = messageReader(true)
    this.#client.setNoDelay(true)
    this.#client.on("error", () => {})
    this.#client.on("close", () => {
      this.#toServer(() => this.#server?.destroySoon())
      options.onClose()
    })
    this.#client.on("data", (chunk: Buffer) => {
      for (const message of read(chunk)) if (!this.#client.destroyed) this.#fromClient(message)
    })
  }

  cut(): void {
    this.#client.destroy()
    this.#server?.destroy()
    this.#withhold?.fault.missed()
  }

  /** Holds or resumes the connection. While held, nothing passes in either direction, and nothing is lost. */
  hold(held: boolean): void {
    this.#held = held
    for (const socket of [this.#client, this.#server])
      if (held) socket?.pause()
      else socket?.resume()
  }

  #fromClient(message: Message): void {
    const { type, bytes } = message
    // The proxy parses the traffic, so it rejects encryption.
    if (type === "" && isEncryptionRequest(bytes)) return this.#toClient(() => this.#client.write("N"))
    // The startup is not counted.
    if (type !== "" && type !== "p" && !this.#inFlight) {
      this.#inFlight = true
      this.#options.onFlight()
    }
    this.#options.onMessage(type === "" && isCancelRequest(bytes) ? "CancelRequest" : nameOf(type))
    const sent = this.#statementOf(message)
    const statement = sent === housekeeping ? undefined : sent
    if (statement !== undefined) this.#sent = true
    const fault = statement === undefined ? undefined : this.#options.onStatement(statement)
    if (fault?.cut === "before") {
      return this.#toServer(() => {
        this.cut()
        fault.happened(statement ?? "")
      })
    }
    if (fault?.cut === "after") this.#withhold = { fault, statement: statement ?? "", before: this.#owed }
    if (["", "Q", "S", "F"].includes(type)) this.#noteOwed()
    const server = (this.#server ??= this.#dial())
    this.#toServer(() => server.write(bytes))
  }

  #noteOwed(): void {
    this.#owed += 1
    this.#sentBefore.push(this.#sent)
    this.#sent = false
  }

  /** ReadyForQuery says, in its last byte, whether a transaction is open. */
  #noteReady(bytes: Buffer): void {
    this.#owed -= 1
    if (this.#owed === 0) this.#inFlight = false
    if (this.#sentBefore.shift() === true) this.#hasRun = true
    if (bytes.at(-1) !== "I".charCodeAt(0) || !this.#hasRun) return
    this.#hasRun = false
    this.#options.onTransaction()
  }

  /** Connects on the first message, so that a connection that is held from the beginning never reaches the server. */
  #dial(): Socket {
    const server = connect(this.#options.target)
    const read = messageReader(false)
    server.setNoDelay(true)
    if (this.#held) server.pause()
    server.on("error", () => {})
    server.on("close", () => {
      this.#withhold?.fault.missed()
      this.#toClient(() => this.#client.destroySoon())
    })
    server.on("data", (chunk: Buffer) => {
      for (const message of read(chunk)) this.#fromServer(message)
    })
    return server
  }

  #fromServer({ type, bytes }: Message): void {
    const isReady = type === "Z"
    if (isReady) this.#noteReady(bytes)
    const withheld = this.#withhold
    if (withheld === undefined || withheld.before > 0) {
      if (withheld !== undefined && isReady) withheld.before -= 1
      return this.#toClient(() => this.#client.write(bytes))
    }
    if (!isReady) return
    this.#withhold = undefined
    this.#toClient(() => {
      this.cut()
      withheld.fault.happened(withheld.statement)
    })
  }
}

/** One direction of a connection: runs actions in order, each after the delay that applied when it was added. */
const makeLine = (delayMs: () => number): ((action: () => void) => void) => {
  let waiting = 0
  let tail = Promise.resolve()
  return (action) => {
    const delay = delayMs()
    if (delay === 0 && waiting === 0) return action()
    const due = performance.now() + delay
    waiting += 1
    tail = after(tail, due, () => {
      waiting -= 1
      action()
    })
  }
}

const after = async (before: Promise<void>, due: number, action: () => void): Promise<void> => {
  await before
  await sleep(Math.max(0, due - performance.now()))
  action()
}
