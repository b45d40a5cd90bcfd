import type { RunOptions, TransportOptions } from "./ClientOptions.ts"
import type { AboutFile } from "./prepareFile.ts"
import { sendRequest } from "./sendRequest.ts"
import type { FileBody } from "./sendUpload.ts"

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
  const download = async (
    { id, output, status }: Ended,
    field: string,
    { onProgress, signal, timeoutMs }: RunOptions = {},
  ) => {
    onProgress?.({ step: "downloading", jobId: id, status: status as "done" })
    // The URL is its own permission, and other origins may read it.
    const request = { method: "GET", url: output[field] ?? "", headers: {}, read, signal, timeoutMs }
    return (await sendRequest(transport, request)).body
  }
  return {
    transcribe: async (file: FileBody, about?: AboutFile, options?: RunOptions) => {
      const state = await transcriptions?.runFromFile(file, about, options)
      return { transcript: state?.output["transcript"], state }
    },
    speak: async (fields: object, options?: RunOptions) => {
      const state = (await speech?.run(fields, options)) as Ended
      return { audio: await download(state, "audio_url", options), state }
    },
    turn: async (file: FileBody, about: AboutFile, options?: RunOptions) => {
      const state = (await voiceTurns?.runFromFile(file, about, options)) as Ended
      return { text: state.output["text"], audio: await download(state, "audio_url", options), state }
    },
    image: async (fields: object, options?: RunOptions) => {
      const state = (await images?.run(fields, options)) as Ended
      return { image: await download(state, "image_url", options), state }
    },
  }
}
