/** One response as it came over the wire, interim ones (1xx) apart. */
export interface WireResponse {
  /** Statuses of the interim responses that came before it. */
  readonly interim: ReadonlyArray<number>
  readonly status: number
  /** In the order and spelling received. */
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  readonly body: Buffer
}

const HEAD_END = Buffer.from("\r\n\r\n")

interface Head {
  readonly status: number
  readonly headers: ReadonlyArray<readonly [string, string]>
  readonly header: (name: string) => string | undefined
}

const parseHead = (text: string): Head => {
  const [statusLine = "", ...lines] = text.split("\r\n")
  const status = /^HTTP\/1\.1 ([1-5][0-9]{2}) /.exec(`${statusLine} `)?.[1]
  if (status === undefined) throw new Error(`not a status line: ${JSON.stringify(statusLine)}`)
  const headers = lines.map((line) => {
    const colon = line.indexOf(":")
    if (colon < 1) throw new Error(`not a header: ${JSON.stringify(line)}`)
    return [line.slice(0, colon), line.slice(colon + 1).trim()] as const
  })
  const header = (name: string) => headers.find(([key]) => key.toLowerCase() === name)?.[1]
  return { status: Number(status), headers, header }
}

/** Parses responses from a stream of bytes strictly: invalid framing is an error. */
export class ResponseReader {
  #pending: Buffer = Buffer.alloc(0)
  #chunks: Array<Buffer> = []
  #held = 0
  #needed = 0
  #ended = false

  push(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#held += chunk.length
  }

  /** The other side has sent its last byte. */
  end(): void {
    this.#ended = true
  }

  /** Bytes of an unfinished response, for messages about it. */
  get rest(): string {
    return this.#joined().toString("latin1").slice(0, 500)
  }

  /** The next whole response, or `undefined` while it has not arrived. */
  next(method: string): WireResponse | undefined {
    if (this.#held < this.#needed && !this.#ended) return undefined
    const interim: Array<number> = []
    let from = 0
    while (true) {
      const bytes = this.#joined()
      const headEnd = bytes.indexOf(HEAD_END, from)
      if (headEnd === -1) return undefined
      const head = parseHead(bytes.subarray(from, headEnd).toString("latin1"))
      const bodyStart = headEnd + HEAD_END.length
      if (head.status < 200) {
        interim.push(head.status)
        from = bodyStart
        continue
      }
      const body = this.#body(method, head, bytes, bodyStart)
      if (body === undefined) return undefined
      this.#pending = bytes.subarray(body.end)
      this.#needed = 0
      return { interim, status: head.status, headers: head.headers, body: body.bytes }
    }
  }

  #body(method: string, head: Head, bytes: Buffer, start: number): { bytes: Buffer; end: number } | undefined {
    const length = head.header("content-length")
    const coding = head.header("transfer-encoding")
    if (length !== undefined && coding !== undefined) throw new Error("both Content-Length and Transfer-Encoding")
    if (method === "HEAD" || head.status === 204 || head.status === 304) return { bytes: Buffer.alloc(0), end: start }
    if (coding !== undefined) return this.#chunked(bytes, start)
    if (length === undefined) return this.#ended ? { bytes: bytes.subarray(start), end: bytes.length } : undefined
    if (!/^[0-9]+$/.test(length)) throw new Error(`not a length: ${length}`)
    const end = start + Number(length)
    this.#needed = end
    return bytes.length < end ? undefined : { bytes: bytes.subarray(start, end), end }
  }

  #chunked(bytes: Buffer, start: number): { bytes: Buffer; end: number } | undefined {
    const parts: Array<Buffer> = []
    for (let at = start; ;) {
      const lineEnd = bytes.indexOf("\r\n", at)
      if (lineEnd === -1) return undefined
      const size = Number.parseInt(bytes.subarray(at, lineEnd).toString("latin1"), 16)
      if (Number.isNaN(size)) throw new Error("not a chunk size")
      const from = lineEnd + 2
      if (bytes.length < from + size + 2) return undefined
      if (size === 0) return { bytes: Buffer.concat(parts), end: from + 2 }
      parts.push(bytes.subarray(from, from + size))
      at = from + size + 2
    }
  }

  #joined(): Buffer {
    if (this.#chunks.length > 0) {
      this.#pending = Buffer.concat([this.#pending, ...this.#chunks])
      this.#chunks = []
    }
    this.#held = this.#pending.length
    return this.#pending
  }
}
