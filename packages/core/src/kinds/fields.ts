import * as Schema from "effect/Schema"
import { audioFormats, isStorableText, limits } from "../domain/index.ts"
import "./readBySchema.ts"
import { fieldRules } from "./readBySchema.ts"
import type { Voices } from "./Voices.ts"

/** Counts Unicode code points, and stops counting past the limit. */
const isLongerThan = (text: string, limit: number): boolean => {
  if (text.length <= limit) return false
  let count = 0
  for (const _ of text) if (++count > limit) return true
  return false
}

/** Both rules about characters in one expression without look-ahead, which not every language has. */
const writtenText = String.raw`^[^\u0000\ud800-\udfff]*[^\s\u0000\ud800-\udfff][^\u0000\ud800-\udfff]*$`

/**
 * Text of at most `maxLength` Unicode code points, counted untrimmed, with at least one character
 * that is not white space. U+0000 and lone surrogates are refused, because databases disagree
 * about them.
 */
export const Text = (maxLength: number) =>
  Schema.String.check(
    Schema.makeFilter(isStorableText, {
      fieldRule: { reason: "characters", message: "must not contain U+0000 or unpaired surrogates" },
      toJsonSchema: () => [{}, true],
    }),
    Schema.makeFilter((text: string) => text.trim() !== "", {
      fieldRule: { reason: "empty", message: "must contain at least one character that is not white space" },
      toJsonSchema: () => [{ minLength: 1, pattern: writtenText }, true],
    }),
    Schema.makeFilter((text: string) => !isLongerThan(text, maxLength), {
      fieldRule: { reason: "max_length", maxLength, message: `must be at most ${maxLength} characters long` },
      toJsonSchema: () => ({ maxLength }),
    }),
  )

/** One of a list of names. */
export const OneOf = <const Names extends ReadonlyArray<string>>(names: Names) =>
  Schema.String.check(
    Schema.makeFilter((text: string) => names.includes(text), {
      fieldRule: fieldRules.oneOf(names),
      toJsonSchema: () => ({ enum: [...names] }),
    }),
  ) as Schema.Codec<string> as Schema.Codec<Names[number]>

/**
 * Tells the JSON Schema that a number is never written as "Infinity". It comes after the bounds, which such numbers violate, so
 * callers see the bound's message.
 */
const jsonNumber = Schema.isFinite({ fieldRule: fieldRules.type("a number") })

/** An integer between two bounds, both inclusive. */
export const IntegerBetween = (min: number, max: number) =>
  Schema.Number.check(
    Schema.makeFilter((value: number) => Number.isInteger(value), {
      fieldRule: fieldRules.type("an integer"),
      toJsonSchema: () => ({ type: "integer" }),
    }),
    Schema.makeFilter((value: number) => value >= min, {
      fieldRule: { reason: "min", min, message: `must be at least ${min}` },
      toJsonSchema: () => ({ minimum: min }),
    }),
    Schema.makeFilter((value: number) => value <= max, {
      fieldRule: fieldRules.atMost(max),
      toJsonSchema: () => ({ maximum: max }),
    }),
    jsonNumber,
  )

/** A number greater than 0 and at most `max`; fractions allowed. */
export const PositiveUpTo = (max: number) =>
  Schema.Number.check(
    Schema.makeFilter((value: number) => value > 0, {
      fieldRule: fieldRules.positive,
      toJsonSchema: () => ({ exclusiveMinimum: 0 }),
    }),
    Schema.makeFilter((value: number) => value <= max, {
      fieldRule: fieldRules.atMost(max),
      toJsonSchema: () => ({ maximum: max }),
    }),
    jsonNumber,
  )

/** The upload a job consumes. Only the type is checked, because a malformed identifier gets the response of an unknown one. */
export const UploadReference = Schema.String.annotate({
  description: "The `id` of an upload whose file has been sent. An upload can be used by one job only.",
})

/** The fields of a request to announce an upload. */
export const UploadRequest = Schema.Struct({
  format: OneOf(audioFormats),
  declaredSeconds: PositiveUpTo(limits.declaredSeconds),
})

/** The public name of a voice. Kinds with the same voices share one schema, and so one component of the OpenAPI document. */
export const VoiceName = (voices: Voices) => {
  const known = made.get(voices) ?? makeVoiceName(voices)
  made.set(voices, known)
  return known
}

const made = new WeakMap<Voices, ReturnType<typeof makeVoiceName>>()

const makeVoiceName = (voices: Voices) => {
  const names = Object.keys(voices.byName)
  const schema = voices.isOpen === true ? documentedNames(names) : OneOf(names)
  return schema.annotate({ identifier: "Voice", description: "One of the available voices." })
}

const documentedNames = (names: ReadonlyArray<string>) =>
  Schema.String.check(Schema.makeFilter(() => true, { toJsonSchema: () => [{ enum: [...names] }, true] }))

/** Returns the provider's voice for a request's voice, which validation has already checked. */
export const providerVoice = (voices: Voices, name: string | undefined): string => {
  const voice = name ?? voices.default
  return Object.hasOwn(voices.byName, voice) ? (voices.byName[voice] ?? voice) : voice
}
