import type { RunOptions, TransportOptions } from "./ClientOptions.ts"
import type { AboutFile } from "./prepareFile.ts"
import { sendRequest } from "./sendRequest.ts"
import type { FileBody } from "./sendUpload.ts"
import { deadlineAfter, within } from "./timers.ts"

interface Ended {
  readonly id: string
  readonly status: string
  readonly output: Readonly<Record<string, string>>
}
interface Runs {
  readonly run: (fields: object, options?: RunOptions) => Promise<Ended>
  readonly runFromFile: (file: FileBody, about?: AboutFile, options?: RunOptions) => Promise<Ended>
}

const read = (response: Response): Promise<unknown> => (response.ok ? response.blob() : response.text())

/** The built-in kinds as one call each, from text or file to text or file. */
export const wholeCalls = (
  { images, speech, transcriptions, voiceTurns }: Readonly<Record<string, Runs>>,
  transport: TransportOptions,
) => {
  /** Runs a job and downloads a file of its output, both within `timeoutMs`. */
  const withFile = async (
    field: string,
    { onProgress, signal, timeoutMs }: RunOptions = {},
    run: () => Promise<Ended> | undefined,
  ) => {
    const deadline = deadlineAfter(timeoutMs)
    try {
      const state = (await run()) as Ended
      onProgress?.({ step: "downloading", jobId: state.id, status: state.status as "done" })
      // The URL is its own permission, and other origins may read it.
      const url = state.output[field] ?? ""
      const download = (either: AbortSignal) =>
        sendRequest(transport, { method: "GET", url, headers: {}, read, signal: either })
      return [(await within(signal, deadline, download)).body, state] as const
    } finally {
      deadline.cancel()
    }
  }
  return {
    transcribe: async (file: FileBody, about?: AboutFile, options?: RunOptions) => {
      const state = await transcriptions?.runFromFile(file, about, options)
      return { transcript: state?.output["transcript"], state }
    },
    speak: async (fields: object, options?: RunOptions) => {
      const [audio, state] = await withFile("audio_url", options, () => speech?.run(fields, options))
      return { audio, state }
    },
    turn: async (file: FileBody, about: AboutFile, options?: RunOptions) => {
      const run = () => voiceTurns?.runFromFile(file, about, options)
      const [audio, state] = await withFile("audio_url", options, run)
      return { text: state.output["text"], audio, state }
    },
    image: async (fields: object, options?: RunOptions) => {
      const [image, state] = await withFile("image_url", options, () => images?.run(fields, options))
      return { image, state }
    },
  }
}
