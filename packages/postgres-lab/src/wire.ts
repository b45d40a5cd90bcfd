/** One message of the Postgres protocol: its type letter (empty for the untyped startup messages) and its bytes. */
export interface Message {
  readonly type: string
  readonly bytes: Buffer
}

/**
 * Splits a stream of bytes into messages, independently of packets. A client's stream begins with messages without a type
 * letter: optional requests for encryption, then the startup message.
 */
export const messageReader = (startsUntyped: boolean): ((chunk: Buffer) => ReadonlyArray<Message>) => {
  let rest: Buffer = Buffer.alloc(0)
  let untyped = startsUntyped
  return (chunk) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    const messages: Array<Message> = []
    for (;;) {
      const header = untyped ? 0 : 1
      if (rest.length < header + 4) return messages
      const length = header + rest.readInt32BE(header)
      if (rest.length < length) return messages
      const bytes = rest.subarray(0, length)
      rest = rest.subarray(length)
      messages.push({ type: untyped ? "" : String.fromCharCode(bytes[0] ?? 0), bytes })
      if (untyped && !isEncryptionRequest(bytes)) untyped = false
    }
  }
}

/** Recognizes SSLRequest and GSSENCRequest. The server responds with one letter, and the client then sends another startup message. */
export const isEncryptionRequest = (bytes: Buffer): boolean =>
  bytes.length === 8 && [80_877_103, 80_877_104].includes(bytes.readInt32BE(4))

/** Recognizes CancelRequest: the only message of its connection, which gets no response. */
export const isCancelRequest = (bytes: Buffer): boolean => bytes.length >= 8 && bytes.readInt32BE(4) === 80_877_102

const names: Readonly<Record<string, string>> = {
  "": "Startup",
  B: "Bind",
  C: "Close",
  D: "Describe",
  E: "Execute",
  F: "FunctionCall",
  H: "Flush",
  P: "Parse",
  Q: "Query",
  S: "Sync",
  X: "Terminate",
  c: "CopyDone",
  d: "CopyData",
  f: "CopyFail",
  // Passwords and SASL responses share a letter.
  p: "Password",
}

/** Returns the name of a client message in the protocol's documentation. */
export const nameOf = (type: string): string => names[type] ?? type

/** Reads the two zero-terminated strings at the beginning of most message bodies. */
const leadingStrings = (bytes: Buffer): readonly [string, string] => {
  const end = bytes.indexOf(0, 5)
  return [bytes.toString("utf8", 5, end), bytes.toString("utf8", end + 1, bytes.indexOf(0, end + 1))]
}

/**
 * Tracks what a client has prepared and bound, and returns the text of every statement that it runs: of a Query, or of an
 * Execute, which only names a portal. Undefined for any other message.
 */
export const statementReader = (): ((message: Message) => string | undefined) => {
  const statements = new Map<string, string>()
  const portals = new Map<string, string>()
  return ({ type, bytes }) => {
    if (!"QEPB".includes(type) || type === "") return undefined
    const [first, second] = leadingStrings(bytes)
    if (type === "Q") return first
    if (type === "E") return portals.get(first) ?? ""
    if (type === "P") statements.set(first, second)
    else portals.set(first, statements.get(second) ?? "")
    return undefined
  }
}
