import type { ProviderCall } from "@kiln/core/ports"

/**
 * The same for every attempt, so that a provider which accepts it recognizes a repeat instead of working twice; not the
 * same for two steps of one job, which ask for different things. Providers that know no such header ignore it.
 */
export const idempotencyHeaders = (
  call: ProviderCall,
  step: "transcription" | "reply" | "speech" | "image",
): { readonly "Idempotency-Key": string } => ({ "Idempotency-Key": `${call.jobId}-${step}` })
