import type { ImageModelV4 } from "@ai-sdk/provider"
import type { WholeCalls } from "../Client.ts"
import { PROVIDER, responseOf, runOptionsOf, unsupported } from "./callOptions.ts"

/** Images of one call, each a job. All of a call are made together, so that they can have keys that differ. */
const MAX_IMAGES = 100

/** Image jobs as a model of the AI SDK. */
export const imageModel = (client: WholeCalls, modelId: string): ImageModelV4 => ({
  specificationVersion: "v4",
  provider: PROVIDER,
  modelId,
  maxImagesPerCall: MAX_IMAGES,
  supportsFileInputs: false,
  supportsMaskInputs: false,
  doGenerate: async ({ aspectRatio, files, mask, n, prompt = "", seed, size, ...call }) => {
    if (files?.length || mask !== undefined)
      throw new TypeError("kiln generates images from text, without files and mask")
    const options = runOptionsOf(call)
    const keyOf = (index: number) =>
      options.idempotencyKey === undefined || index === 0
        ? {}
        : { idempotencyKey: `${options.idempotencyKey}#${index + 1}` }
    const results = await Promise.all(
      Array.from({ length: n }, (_, index) =>
        client.image({ prompt, model: modelId as "svc-image" }, { ...options, ...keyOf(index) }),
      ),
    )
    return {
      images: await Promise.all(results.map(async ({ image }) => new Uint8Array(await image.arrayBuffer()))),
      warnings: unsupported({
        aspectRatio: aspectRatio === "1:1" ? undefined : aspectRatio,
        seed,
        size: size === "1024x1024" ? undefined : size,
      }),
      response: { ...responseOf(modelId), headers: undefined },
      providerMetadata: { [PROVIDER]: { images: results.map(({ state }) => ({ jobId: state.id })) } },
    }
  },
})
