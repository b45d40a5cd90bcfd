import { limits } from "@kiln/core/domain"
import type { OfferedKinds } from "../handlers/offerKinds.ts"

/** What a page learns of the service before its first request. */
export interface PageConfig {
  /** Base of all requests, without a trailing slash. */
  readonly url: string
  /** Whether the playground issues sandbox keys. */
  readonly playground: boolean
  readonly maxBytes: number
  readonly maxSeconds: number
  readonly kinds: ReadonlyArray<PageKind>
}

/** A kind of job: where its jobs are created and polled. */
export interface PageKind {
  readonly name: string
  readonly description: string | null
  readonly path: string
  /** The polling path without the identifier: `/v1/jobs/`. */
  readonly poll: string
  /** Name of its requests' schema in the OpenAPI document. */
  readonly schema: string
  /** The promise client's name of its methods: `speech`. */
  readonly methods: string
  /** The field with the upload that it consumes. */
  readonly upload: string | null
  readonly scope: string
}

export const pageConfig = (offers: OfferedKinds, url: string, playground: boolean): PageConfig => ({
  url,
  playground,
  maxBytes: limits.uploadBytes,
  maxSeconds: limits.declaredSeconds,
  kinds: [...offers.values()].map(({ family, kind, route }) => ({
    name: kind.name,
    description: kind.description ?? null,
    path: route.path,
    poll: family.poll.slice(0, -":id".length),
    schema: `Create${route.noun}`,
    methods: route.methods,
    upload: route.upload ?? null,
    scope: kind.keyScope,
  })),
})
