import * as Schema from "effect/Schema"
import { OneOf } from "./fields.ts"
import type { Voices } from "./Voices.ts"

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
