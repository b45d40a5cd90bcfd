import { type EffectProvider, effectProvider, resultInvalid } from "@kiln/core/providers"
import { Effect } from "effect"
import { runProgram } from "./runProgram.ts"
import { withLengths } from "./wav.ts"

/** Speaks text to WAV with espeak-ng. A voice is one of `espeak-ng --voices`, optionally with a variant: `en-us+f5`. */
export const espeakSpeech = ({ command = "espeak-ng" } = {}): EffectProvider<"speech"> =>
  effectProvider("speech", ({ text, voice }) =>
    runProgram({
      command,
      // Pass the text on standard input: an argument could be parsed as an option, and other users can read arguments.
      args: ["-b", "1", "-v", voice, "-s", "145", "-a", "80", "--stdin", "--stdout"],
      input: new TextEncoder().encode(text),
      install: "apt-get install espeak-ng",
      timeLimitMs: 60_000,
      maxOutputBytes: 20 * 1024 * 1024,
    }).pipe(
      Effect.flatMap((file) => {
        const data = withLengths(file)
        return data === undefined
          ? Effect.fail(resultInvalid(`${command} wrote ${file.length} bytes, which are not a WAV file`))
          : Effect.succeed({ data, mediaType: "audio/wav" })
      }),
    ),
  )
