import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { limits } from "../domain/index.ts"
import { providerVoice, Text, VoiceName } from "./fields.ts"
import { JobKind } from "./JobKind.ts"
import type { Voices } from "./Voices.ts"

/** Converts text to speech. */
export const SpeechSynthesis = (voices: Voices) =>
  JobKind({
    name: "speech_synthesis",
    keyScope: "audio.create",
    description: "Converts text to speech.",
    request: Schema.Struct({
      input: Text(limits.inputCharacters).annotate({
        description: "The text to speak. Its length is counted in Unicode code points.",
      }),
      voice: Schema.optionalKey(VoiceName(voices)),
    }),
    example: { input: "Hello there.", voice: voices.default },
    output: Schema.Struct({}),
    files: { audio: "The audio file." },
    price: "svc-audio",
    meters: ["input_characters"],
    maxUsage: ({ input }) => ({ input_characters: [...input].length }),
    switches: ["ai", "audio"],
    providers: ["speech"],
    run: Effect.fnUntraced(function* ({ ask, writeFile, request }) {
      const voice = providerVoice(voices, request.voice)
      const audio = yield* writeFile("audio", ask.speech({ text: request.input, voice }))
      return { output: {}, files: [audio], usage: { input_characters: [...request.input].length } }
    }),
  })
