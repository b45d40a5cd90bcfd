import type { WireResponse } from "./ResponseReader.ts"

/** The error of an envelope. */
export interface WireError {
  readonly type: string
  readonly code: string
  readonly message: string
  readonly param: string | null
  readonly details: Readonly<Record<string, unknown>> | null
  readonly request_id: string
}

/** A response with what tests ask of it. */
export class Answer {
  readonly wire: WireResponse
  constructor(wire: WireResponse) {
    this.wire = wire
  }

  get status(): number {
    return this.wire.status
  }

  get text(): string {
    return this.wire.body.toString("utf8")
  }

  /** The values of a header, one per line received. */
  all(name: string): ReadonlyArray<string> {
    return this.wire.headers.filter(([key]) => key.toLowerCase() === name.toLowerCase()).map(([, value]) => value)
  }

  /** The value of a header that may come once at most. */
  header(name: string): string | undefined {
    const values = this.all(name)
    if (values.length > 1) throw new Error(`${name} was sent ${values.length} times`)
    return values[0]
  }

  get isJson(): boolean {
    return this.header("content-type")?.startsWith("application/json") === true
  }

  /** The decoded body, of whatever shape the test expects. */
  get json() {
    if (!this.isJson)
      throw new Error(`no JSON: ${this.status} ${this.header("content-type")} ${this.text.slice(0, 200)}`)
    return JSON.parse(this.text)
  }

  get error(): WireError {
    const { error } = this.json
    if (error === undefined) throw new Error(`no error: ${this.status} ${this.text}`)
    return error
  }

  /** The error's code, or `undefined` of a success: what most rows compare. */
  get code(): string | undefined {
    return this.status >= 400 && this.isJson && this.wire.body.length > 0 ? this.error.code : undefined
  }

  /** Everything but what differs between two answers to the same request: request id and date. */
  get comparable(): string {
    const masked = (text: string) => text.replaceAll(/req_[0-9a-z]{26}/gi, "req_#")
    const headers = this.wire.headers.filter(([name]) => !/^(date|x-request-id)$/i.test(name))
    return `${this.status}\n${headers.map(([name, value]) => `${name}: ${value}`).join("\n")}\n\n${masked(this.text)}`
  }
}
