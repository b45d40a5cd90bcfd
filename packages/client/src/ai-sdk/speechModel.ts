import type { SpeechModelV4 } from "@ai-sdk/provider"
import type { WholeCalls } from "../Client.ts"
import { PROVIDER, responseOf, runOptionsOf, unsupported } from "./callOptions.ts"

/** Media types by the AI SDK's names of formats that differ from their subtype. */
const subtypes: Readonly<Record<string, string>> = { mp3: "mpeg" }

/** Speech jobs as a model of the AI SDK. */
export const speechModel = (client: WholeCalls, modelId: string): SpeechModelV4 => ({
  specificationVersion: "v4",
  provider: PROVIDER,
  modelId,
  doGenerate: async ({ instructions, language, outputFormat, speed, text, voice, ...call }) => {
    const request = { input: text, ...(voice !== undefined && { voice }) }
    const { audio, state } = await client.speak(request, runOptionsOf(call))
    const isFormat = outputFormat === undefined || audio.type.endsWith(`/${subtypes[outputFormat] ?? outputFormat}`)
    return {
      audio: new Uint8Array(await audio.arrayBuffer()),
      warnings: unsupported({ instructions, language, speed, ...(!isFormat && { outputFormat }) }),
      response: { ...responseOf(modelId), headers: { "content-type": audio.type }, body: state },
      providerMetadata: { [PROVIDER]: { jobId: state.id } },
    }
  },
})
