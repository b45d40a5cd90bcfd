import * as Context from "effect/Context"
import type { KeyScope } from "../domain/Access.ts"
import { ImageGeneration } from "./ImageGeneration.ts"
import type { JobKind } from "./JobKind.ts"
import { SpeechSynthesis } from "./SpeechSynthesis.ts"
import { Transcription } from "./Transcription.ts"
import { defaultVoices, type Voices } from "./Voices.ts"
import { VoiceTurn } from "./VoiceTurn.ts"

/** The built-in kinds, under the names that programs use. Kinds that speak are functions of the voices. */
export const builtIn = {
  transcription: Transcription,
  speechSynthesis: SpeechSynthesis,
  voiceTurn: VoiceTurn,
  imageGeneration: ImageGeneration,
} as const satisfies Readonly<Record<string, JobKind | ((voices: Voices) => JobKind)>>

type Made<K> = K extends (voices: Voices) => infer Kind ? Kind : K
/** The type of any of the built-in kinds. */
export type BuiltInJobKind = { [Name in keyof typeof builtIn]: Made<(typeof builtIn)[Name]> }[keyof typeof builtIn]

/** Returns all built-in kinds, with the given voices for those that speak. */
export const builtInKinds = (voices: Voices = defaultVoices): ReadonlyArray<BuiltInJobKind> =>
  Object.values(builtIn).map((kind) => (typeof kind === "function" ? kind(voices) : kind))

/** The key scopes of the built-in kinds, each once. */
export const keyScopes: ReadonlyArray<KeyScope> = [...new Set(builtInKinds().map(({ keyScope }) => keyScope))]

/** The job kinds of this installation; by default the four built-in ones. */
export const JobKinds = Context.Reference<ReadonlyArray<JobKind>>("@kiln/core/kinds/JobKinds", {
  defaultValue: () => builtInKinds(),
})
