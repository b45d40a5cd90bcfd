import { limits } from "../domain/Limits.ts"
import { checkBytes, type GeneratedFile } from "./checks.ts"
import { generatedPng } from "./generatedPng.ts"
import { resultInvalid } from "./ProviderError.ts"
import { providerPort } from "./ProviderPort.ts"

/** Maximum size in bytes: 1024 by 1024 pixels with 16 bits per channel take half of it, uncompressed. */
const maxImageBytes = 16 * 1_024 * 1_024

/** Requires a complete PNG of exactly `size` by `size` pixels and at most 16 MiB. Throws `result_invalid`. */
export const checkPng = (answer: unknown, size: number): GeneratedFile => {
  const data = checkBytes(answer, maxImageBytes)
  const problem = generatedPng(data, size)
  if (problem !== undefined) throw resultInvalid(`expected a PNG, got ${data.length} bytes: ${problem}`)
  return { data, mediaType: "image/png" }
}

/** Text to a PNG of 1024 by 1024 pixels. */
export const image = providerPort({
  name: "image",
  callLimitMs: 300_000,
  check: (answer, _request: { readonly prompt: string }) => checkPng(answer, limits.imageSize),
})
