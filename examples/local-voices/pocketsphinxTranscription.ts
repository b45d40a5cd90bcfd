import {
  type AudioInput,
  type EffectProvider,
  effectProvider,
  type ProviderError,
  providerRefused,
} from "@kiln/core/providers"
import { Effect, Stream } from "effect"
import { resample } from "./resample.ts"
import { runProgram } from "./runProgram.ts"
import { openUnnamedFile } from "./unnamedFile.ts"
import { openWav } from "./wav.ts"

/** The sample rate that pocketsphinx's English model was trained on. */
const sampleRate = 16_000

/** Transcribes English audio with pocketsphinx: WAV, and MP3 if sox can read it. */
export const pocketsphinxTranscription = ({
  command = "pocketsphinx_continuous",
  sox = "sox",
} = {}): EffectProvider<"transcription"> =>
  effectProvider(
    "transcription",
    Effect.fnUntraced(function* ({ audio }) {
      const file = Buffer.concat(yield* Stream.runCollect(audio.content))
      const recording = openWav(audio.format === "wav" ? file : yield* toWav(audio, file, sox))
      if (typeof recording === "string") return yield* providerRefused("input", recording)
      const samples = yield* openUnnamedFile
      for (const block of resample(recording, sampleRate)) yield* samples.append(block)
      const output = yield* runProgram({
        command,
        args: ["-infile", "/dev/stdin", "-logfn", "/dev/null"],
        input: samples,
        install: "apt-get install pocketsphinx pocketsphinx-en-us",
        timeLimitMs: 60_000 + 3_000 * audio.seconds,
        maxOutputBytes: 1024 * 1024,
      })
      // One line per utterance.
      return { text: new TextDecoder().decode(output).trim().replaceAll(/\s+/g, " ") }
    }, Effect.scoped),
  )

const toWav = (audio: AudioInput, file: Uint8Array, sox: string): Effect.Effect<Uint8Array, ProviderError> =>
  audio.format === "mp3"
    ? runProgram({
        command: sox,
        args: ["-t", "mp3", "-", "-t", "wav", "-r", `${sampleRate}`, "-c", "1", "-b", "16", "-"],
        input: file,
        install: "apt-get install sox libsox-fmt-mp3",
        timeLimitMs: 60_000,
        maxOutputBytes: 32 * 1024 * 1024,
        // The file is invalid, or this sox has no MP3 support. Other files still work, so the provider is not broken.
      }).pipe(Effect.catchTag("ProviderBroken", ({ detail }) => Effect.fail(providerRefused("input", detail))))
    : Effect.fail(providerRefused("input", `wav or mp3 is understood here, ${audio.format} is not`))
