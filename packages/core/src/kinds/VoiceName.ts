import { Schema } from "effect"
import { OneOf } from "./fields.ts"
import type { Voices } from "./Voices.ts"

/** The public name of a voice. */
export const VoiceName = (voices: Voices) => {
  const names = Object.keys(voices.byName)
  const schema = voices.isOpen === true ? documentedNames(names) : OneOf(names)
  return schema.annotate({ identifier: "Voice", description: "One of the available voices." })
}

const documentedNames = (names: ReadonlyArray<string>) =>
  Schema.String.check(Schema.makeFilter(() => true, { toJsonSchema: () => [{ enum: [...names] }, true] }))
