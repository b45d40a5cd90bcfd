import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { BlobCorrupt, BlobUnavailable, JobId } from "../domain/index.ts"
import type { AnswerOf, NameOf, ProviderName, ProviderRef, RequestOf } from "./builtInPorts.ts"
import type { ProviderCallError } from "./ProviderError.ts"
import type { AudioDetails } from "./transcription.ts"

/** Identifies a call. */
export interface ProviderCall {
  /** An idempotency token for providers that accept one. */
  readonly jobId: JobId
  /** 1-based. */
  readonly attempt: number
  /** Earlier attempts that ended with a provider failure. */
  readonly failures: number
  /**
   * Earlier attempts that returned the job to the queue without counting as a failure or a lost worker, such as a requested
   * delay.
   */
  readonly deferrals: number
}

/** An audio file that can be read, from a blob. Its content may be opened any number of times. */
export interface AudioInput extends AudioDetails {
  readonly content: Stream.Stream<Uint8Array, BlobUnavailable | BlobCorrupt>
}

/** The request that a provider that returns an Effect receives. */
export type ProviderRequest<Ref extends ProviderRef> = {
  readonly [Field in keyof RequestOf<Ref>]: Field extends "audio" ? AudioInput : RequestOf<Ref>[Field]
}

type Called<Answer> = Effect.Effect<Answer, ProviderCallError | BlobUnavailable | BlobCorrupt>

/** Answers the requests of a port. Interruption must abort the call. */
export type Provider<Ref extends ProviderRef> = (
  request: ProviderRequest<Ref>,
  call: ProviderCall,
) => Called<AnswerOf<Ref>>

/** A provider that carries the name of its port, which tells `createEngine` that it returns an Effect. */
export type EffectProvider<Ref extends ProviderRef> = Provider<Ref> & { readonly "~provider": NameOf<Ref> }

/** Marks a provider that returns an Effect, so that `createEngine` accepts it beside those that return promises. */
export const effectProvider = <const Ref extends ProviderRef>(
  port: Ref,
  provider: Provider<Ref>,
): EffectProvider<Ref> =>
  // A function of its own, because the given one may be marked for another port.
  Object.assign<Provider<Ref>, { readonly "~provider": NameOf<Ref> }>(provider.bind(undefined), {
    "~provider": (typeof port === "string" ? port : port.name) as NameOf<Ref>,
  })

/** A provider of any port. */
export type AnyProvider = (request: never, call: ProviderCall) => Called<unknown>

/** Providers by the name of their port. Kinds whose providers are missing are not run. */
export type ProviderSet = { readonly [Name in ProviderName]?: Provider<Name> | undefined } & {
  readonly [custom: string]: AnyProvider | undefined
}

/** The providers of sandbox jobs and of live jobs. A sandbox job never reaches `live`. */
export class Providers extends Context.Service<
  Providers,
  {
    readonly sandbox: ProviderSet
    readonly live: ProviderSet
  }
>()("@kiln/core/providers/Providers") {}
