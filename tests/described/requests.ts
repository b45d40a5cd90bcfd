import { randomUUID } from "node:crypto"
import fc from "fast-check"
import type { DescribedOperation } from "./description.ts"

/** A request to one operation. */
export interface Generated {
  readonly operation: DescribedOperation
  readonly target: string
  readonly headers: Readonly<Record<string, string>>
  /** The value of its JSON body; `undefined` without one. */
  readonly value: unknown
  /** The body of a transfer. */
  readonly bytes?: Uint8Array | undefined
}

/** What the service has. */
export interface Present {
  readonly keys: ReadonlyArray<string>
  readonly jobs: ReadonlyArray<string>
  /** Uploads whose file has arrived. */
  readonly uploads: ReadonlyArray<string>
  /** Signed URLs as they were handed out, by operation. */
  readonly signed: Readonly<Record<string, ReadonlyArray<string>>>
}

/** Characters at which servers and descriptions disagree. */
const odd = ["\0", "\ud800", "\udfff", "😀", "\u00a0", "\ufeff", "\u0085", "\u200b", "\n", "é", "0"]

const text = (longest: number) =>
  fc.oneof(
    { weight: 6, arbitrary: fc.string({ minLength: 1, maxLength: 12 }) },
    {
      weight: 2,
      arbitrary: fc.array(fc.constantFrom(" ", "a", ...odd), { maxLength: 4 }).map((parts) => parts.join("")),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.constantFrom("a", "😀", " "), fc.integer({ min: -1, max: 1 }))
        .map(([character, more]) => character.repeat(longest + more)),
    },
  )

const odds = fc.constantFrom<unknown>(null, true, 0, -1, 1.5, 1e300, "", " ", [], {}, ["a"], { a: 1 })
const voice = fc.constantFrom("alloy", "echo", "fable", "nova", "onyx", "shimmer", "Alloy", "", "sage")
const id = (prefix: string) =>
  fc.oneof(
    fc.constantFrom("", " ", `${prefix}_`, `${prefix}_01k9q3w5zr8x2v6m4n7p0t1c3d`, "😀", "\0", "\ud800"),
    fc.string({ maxLength: 40 }),
  )

const fieldsFor = ({ uploads }: Present) => ({
  createUpload: {
    format: fc.constantFrom("mp3", "mp4", "wav", "webm", "m4a", "ogg", "WAV", ""),
    declared_seconds: fc.oneof(
      fc.constantFrom(0, -0, -1, 900, 900.0001, 1e-9, 5e-324),
      fc.double({ min: 0, max: 1_000, noNaN: true }),
    ),
  },
  createTranscription: { upload_id: fc.oneof(id("upl"), fc.constantFrom(...uploads)) },
  createSpeech: { input: text(4_096), voice },
  createVoiceTurn: {
    upload_id: fc.oneof(id("upl"), fc.constantFrom(...uploads)),
    max_output_tokens: fc.oneof(fc.constantFrom(0, 1, 1_024, 1_025, 1.5, -1), fc.integer({ min: 1, max: 1_024 })),
    instructions: text(4_096),
    voice,
  },
  createImage: { prompt: text(4_000), model: fc.constantFrom("svc-image", "svc-audio", "") },
})

/** Bodies with fields that are missing, odd or too many now and then. */
const bodyOf = (names: Readonly<Record<string, fc.Arbitrary<unknown>>>): fc.Arbitrary<unknown> => {
  const field = (arbitrary: fc.Arbitrary<unknown>) =>
    fc.oneof({ weight: 12, arbitrary }, { weight: 1, arbitrary: odds })
  const record = fc.record(Object.fromEntries(Object.entries(names).map(([name, value]) => [name, field(value)])))
  const optional = fc
    .tuple(record, fc.subarray(Object.keys(names)), fc.integer({ min: 0, max: 2 }))
    .map(([whole, some, keeps]) =>
      keeps > 0 ? whole : Object.fromEntries(Object.entries(whole).filter(([name]) => some.includes(name))),
    )
  const more = fc.tuple(
    optional,
    fc.dictionary(fc.constantFrom("constructor", "toString", "", "Input", "a"), odds, { maxKeys: 1 }),
  )
  return fc.oneof(
    { weight: 8, arbitrary: optional },
    { weight: 2, arbitrary: more.map(([body, extra]) => ({ ...body, ...extra })) },
    { weight: 1, arbitrary: odds },
  )
}

const visible = fc
  .array(fc.integer({ min: 0x21, max: 0x7e }), { minLength: 1, maxLength: 30 })
  .map((codes) => String.fromCharCode(...codes))
const idempotencyKey = fc.oneof(
  { weight: 30, arbitrary: fc.constant("fresh") },
  {
    weight: 2,
    arbitrary: fc.constantFrom("", '"', '""', '"a"', '"a', 'a"', "a b", "é", "a".repeat(255), "a".repeat(256)),
  },
  { weight: 1, arbitrary: visible },
)

const authorization = (keys: ReadonlyArray<string>) =>
  fc.oneof(
    { weight: 30, arbitrary: fc.constantFrom(...keys.map((key) => `Bearer ${key}`)) },
    { weight: 1, arbitrary: fc.constantFrom("", "Bearer", "Bearer x", "Basic eDp4", "Bearer $KILN_API_KEY") },
  )

const creates = (
  operation: DescribedOperation,
  names: Readonly<Record<string, fc.Arbitrary<unknown>>>,
  keys: ReadonlyArray<string>,
) =>
  fc.record({
    operation: fc.constant(operation),
    target: fc.constant(operation.path),
    value: bodyOf(names),
    headers: fc.record({
      authorization: authorization(keys),
      "content-type": fc.oneof(
        { weight: 30, arbitrary: fc.constantFrom("application/json", "application/json; charset=utf-8") },
        { weight: 1, arbitrary: fc.constantFrom("text/plain", "application/xml", "") },
      ),
      "idempotency-key": idempotencyKey.map((key) => (key === "fresh" ? `fresh-${randomUUID()}` : key)),
    }),
  })

/** A small file of each kind, none of which has a sound. */
const bytes = fc
  .constantFrom(undefined, "", "hello", "RIFF0000WAVEfmt ", "ID3", "\u0000".repeat(100))
  .map((text) => (text === undefined ? undefined : Buffer.from(text, "latin1")))

const query = fc.dictionary(fc.constantFrom("e", "k", "s", "x"), fc.string({ maxLength: 8 }), { maxKeys: 4 })

const asks = (operation: DescribedOperation, { jobs, keys, signed }: Present) => {
  const isSigned = operation.path.includes("file")
  const given = fc.oneof(fc.constantFrom(...jobs), id("job"), id("img"))
  const made = fc.tuple(given, query).map(([name, fields]) => {
    const search = isSigned ? `?${new URLSearchParams(fields)}` : ""
    return operation.path.replace("{id}", encodeURIComponent(name.toWellFormed()) || "x") + search
  })
  return fc.record({
    operation: fc.constant(operation),
    target: fc.oneof(made, ...(signed[operation.id] ?? []).map((url) => fc.constant(url))),
    value: fc.constant(undefined),
    bytes: operation.method === "PUT" ? bytes : fc.constant(undefined),
    headers: fc.record({
      authorization: authorization(keys),
      prefer: fc.constantFrom("", "wait=0", "wait=x", "respond-async", "wait=-1"),
      range: fc.constantFrom("", "bytes=0-1", "bytes=9-", "bytes=-0", "bytes=99999999-", "bytes=x", "lines=1-2"),
      "content-type": fc.constantFrom("", "audio/wav", "audio/mpeg", "text/plain"),
    }),
  })
}

/** Requests to every operation, as clients would generate them from the document, and some that it forbids. */
export const requestsTo = (
  operations: ReadonlyArray<DescribedOperation>,
  present: Present,
): fc.Arbitrary<Generated> => {
  const fields: Readonly<Record<string, Readonly<Record<string, fc.Arbitrary<unknown>>>>> = fieldsFor(present)
  return fc.oneof(
    ...operations.map((operation): fc.WeightedArbitrary<Generated> => {
      const names = fields[operation.id]
      return names === undefined
        ? { weight: 1, arbitrary: asks(operation, present) }
        : { weight: 4, arbitrary: creates(operation, names, present.keys) }
    }),
  )
}
