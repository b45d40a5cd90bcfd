import { connect, type Socket } from "node:net"
import { makeLine } from "./Line.ts"
import { isCancelRequest, isEncryptionRequest, type Message, messageReader, nameOf, statementReader } from "./wire.ts"

/** What befalls one statement: the connection is cut before the server sees it, or after it answered and before the client hears. */
export interface Fault {
  readonly cut: "before" | "after"
  readonly happened: (statement: string) => void
  /** The connection ended some other way first. */
  readonly missed: () => void
}

export interface ConnectionOptions {
  readonly client: Socket
  readonly target: { readonly host: string; readonly port: number }
  readonly delayMs: () => number
  /** Called for every message of the client, by its name in the protocol's documentation. */
  readonly onMessage: (name: string) => void
  /** Called for every statement before it is forwarded; answers with the fault that is to befall it. */
  readonly onStatement: (text: string) => Fault | undefined
  readonly onClose: () => void
}

/** One client's connection through the proxy. Whoever hangs up, the other side is hung up on too. */
export class ProxiedConnection {
  readonly #options: ConnectionOptions
  readonly #client: Socket
  readonly #toServer: (action: () => void) => void
  readonly #toClient: (action: () => void) => void
  readonly #statementOf = statementReader()
  #server: Socket | undefined
  #held = false
  /** How many ReadyForQuery the server still owes: one for the start, each Query and each Sync. */
  #owed = 0
  /** From when on answers are withheld: once the server has said ReadyForQuery for what came before the statement. */
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

  /** While held, nothing passes in either direction, and nothing is lost. */
  hold(held: boolean): void {
    this.#held = held
    for (const socket of [this.#client, this.#server])
      if (held) socket?.pause()
      else socket?.resume()
  }

  #fromClient(message: Message): void {
    const { type, bytes } = message
    // The proxy reads along, so it does not let the two agree on anything it could not read.
    if (type === "" && isEncryptionRequest(bytes)) return this.#toClient(() => this.#client.write("N"))
    this.#options.onMessage(type === "" && isCancelRequest(bytes) ? "CancelRequest" : nameOf(type))
    const statement = this.#statementOf(message)
    const fault = statement === undefined ? undefined : this.#options.onStatement(statement)
    if (fault?.cut === "before") {
      return this.#toServer(() => {
        this.cut()
        fault.happened(statement ?? "")
      })
    }
    if (fault?.cut === "after") this.#withhold = { fault, statement: statement ?? "", before: this.#owed }
    if (["", "Q", "S", "F"].includes(type)) this.#owed += 1
    const server = (this.#server ??= this.#dial())
    this.#toServer(() => server.write(bytes))
  }

  /** Only the first message makes the proxy dial: a connection that is held from its beginning never reaches the server. */
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
    if (isReady) this.#owed -= 1
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
