import type { ProviderCall } from "@kiln/core/providers"

/**
 * Returns an idempotency key that is the same for every attempt of a step, so that a provider that supports it does not
 * repeat the work, and different for each step of a job. Providers without support ignore the header.
 */
export const idempotencyHeaders = (
  call: ProviderCall,
  step: "transcription" | "reply" | "speech" | "image",
): { readonly "Idempotency-Key": string } => ({ "Idempotency-Key": `${call.jobId}-${step}` })
