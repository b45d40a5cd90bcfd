import {
  type AudioInput,
  type EffectProvider,
  effectProvider,
  type ProviderError,
  providerRefused,
} from "@kiln/core/ports"
import { Effect, Stream } from "effect"
import { resample } from "./resample.ts"
import { runProgram } from "./runProgram.ts"
import { openUnnamedFile } from "./unnamedFile.ts"
import { openWav } from "./wav.ts"

/** What pocketsphinx' English model was trained on. */
const sampleRate = 16_000

/** Audio to English text by pocketsphinx: WAV, and MP3 where sox can read it. */
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
      // A line for each utterance.
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
        // What sox cannot read is this file's fault, or means that MP3 is not offered here. Other files go on.
      }).pipe(Effect.catchTag("ProviderBroken", ({ detail }) => Effect.fail(providerRefused("input", detail))))
    : Effect.fail(providerRefused("input", `wav or mp3 is understood here, ${audio.format} is not`))
