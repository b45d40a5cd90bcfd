import * as Effect from "effect/Effect"
import type * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import type { BodyBroken } from "../server/body.ts"
import { Refusal } from "../server/Exchange.ts"

/** Maximum bytes of one part's headers, and maximum number of parts. */
const maxHeaderBytes = 8_192
const maxParts = 40

const BOUNDARY = /^multipart\/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))\s*(?:;|$)/i

/** Returns the boundary of a `multipart/form-data` body; `undefined` for any other content type. */
export const boundaryOf = (contentType: string | undefined): string | undefined => {
  const [, quoted, plain] = BOUNDARY.exec(contentType ?? "") ?? []
  return quoted ?? plain
}

/** A part of a form, whose content follows. */
export interface FormPart {
  readonly name: string
  /** `undefined` for a plain field. */
  readonly fileName: string | undefined
}

const invalid = (message: string): Refusal => new Refusal({ code: "invalid_request", message })

type Source = Pull.Pull<ReadonlyArray<Uint8Array>, BodyBroken>

/** Reads the parts of a form one after the other, on demand: unread bytes stay with the sender. */
export class MultipartReader {
  readonly #source: Source
  readonly #delimiter: Buffer
  // The first delimiter has no line break before it.
  #buffer: Buffer = Buffer.from("\r\n")
  #isInPart = true
  #parts = 0

  constructor(source: Source, boundary: string) {
    this.#source = source
    this.#delimiter = Buffer.from(`\r\n--${boundary}`, "latin1")
  }

  /** Skips the rest of the current part. Returns the next one; `undefined` at the end of the form. */
  get next(): Effect.Effect<FormPart | undefined, BodyBroken | Refusal> {
    return Effect.gen({ self: this }, function* () {
      while ((yield* this.chunk) !== undefined);
      while (this.#buffer.length < 2) yield* this.#fill
      if (this.#buffer.subarray(0, 2).toString("latin1") === "--") return undefined
      this.#parts += 1
      if (this.#parts > maxParts) return yield* invalid(`The form has more than ${maxParts} parts.`)
      let end = this.#buffer.indexOf("\r\n\r\n")
      while (end === -1) {
        if (this.#buffer.length > maxHeaderBytes) return yield* invalid("The headers of a form part are too large.")
        yield* this.#fill
        end = this.#buffer.indexOf("\r\n\r\n")
      }
      const headers = this.#buffer.subarray(0, end).toString("utf8")
      // A part without content ends right after the blank line, whose line break belongs to the delimiter then.
      this.#buffer = this.#buffer.subarray(end + 2)
      this.#skipsBreak = true
      this.#isInPart = true
      const disposition = /^content-disposition:\s*form-data\s*;(.*)$/im.exec(headers)?.[1] ?? ""
      const name = /(?:^|;)\s*name="([^"]*)"/i.exec(disposition)?.[1]
      if (name === undefined) return yield* invalid("A form part has no name.")
      return { name, fileName: /(?:^|;)\s*filename\*?="?([^";]*)"?/i.exec(disposition)?.[1] }
    })
  }
  #skipsBreak = false

  /** Returns some bytes of the current part; `undefined` at its end. */
  get chunk(): Effect.Effect<Uint8Array | undefined, BodyBroken | Refusal> {
    return Effect.gen({ self: this }, function* () {
      while (this.#isInPart) {
        const at = this.#buffer.indexOf(this.#delimiter)
        // Bytes that may be the beginning of the delimiter stay.
        const ready = at === -1 ? this.#buffer.length - this.#delimiter.length + 1 : at
        if (at !== -1 || ready > 2) {
          const from = this.#skipsBreak && ready >= 2 ? 2 : 0
          const piece = this.#buffer.subarray(from, Math.max(from, ready))
          this.#skipsBreak = false
          this.#buffer = this.#buffer.subarray(at === -1 ? ready : at + this.#delimiter.length)
          if (at !== -1) this.#isInPart = false
          if (piece.length > 0) return piece
        } else yield* this.#fill
      }
      return undefined
    })
  }

  /** The rest of the current part. */
  get content(): Stream.Stream<Uint8Array, BodyBroken | Refusal> {
    return Stream.unfold(undefined, () =>
      Effect.map(this.chunk, (piece) => (piece === undefined ? undefined : ([piece, undefined] as const))),
    )
  }

  /** The current part as text of at most `maxBytes`. */
  text(name: string, maxBytes: number): Effect.Effect<string, BodyBroken | Refusal> {
    return Effect.gen({ self: this }, function* () {
      const pieces: Array<Uint8Array> = []
      let bytes = 0
      for (let piece = yield* this.chunk; piece !== undefined; piece = yield* this.chunk) {
        bytes += piece.length
        if (bytes > maxBytes) return yield* invalid(`${name} must have at most ${maxBytes} bytes.`)
        pieces.push(piece)
      }
      return Buffer.concat(pieces).toString("utf8")
    })
  }

  get #fill(): Effect.Effect<void, BodyBroken | Refusal> {
    return this.#source.pipe(
      Effect.map((pieces) => {
        this.#buffer = Buffer.concat([this.#buffer, ...pieces])
      }),
      Effect.catchIf(
        (error): error is Exclude<typeof error, BodyBroken> => error._tag !== "BodyBroken",
        () => Effect.fail(invalid("The form ends before its last boundary.")),
      ),
    )
  }
}
