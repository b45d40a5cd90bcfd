import { Effect, Schema } from "effect"
import { limits } from "../domain/index.ts"
import { OneOf, Text } from "./fields.ts"
import { JobKind, provider } from "./JobKind.ts"
import { checkAudio } from "./results.ts"
import { providerVoice, type Voices } from "./Voices.ts"

/** Text in, speech out. */
export const SpeechSynthesis = (voices: Voices) =>
  JobKind({
    name: "speech_synthesis",
    keyScope: "audio.create",
    request: Schema.Struct({
      input: Text(limits.inputCharacters),
      voice: Schema.optionalKey(OneOf(Object.keys(voices.byName))),
    }),
    price: "svc-audio",
    switches: ["ai", "audio"],
    providers: ["speech"],
    run: Effect.fnUntraced(function* ({ call, fileStep, providers, request }) {
      const audio = yield* fileStep(
        "audio",
        Effect.flatMap(
          provider(providers, "speech").speak(
            { text: request.input, voice: providerVoice(voices, request.voice) },
            call,
          ),
          checkAudio,
        ),
      )
      return { output: {}, files: [audio], usage: { input_characters: [...request.input].length } }
    }),
  })
