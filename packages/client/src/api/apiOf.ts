import { OpenApi } from "effect/http-api"
import { describeResponses, withVoices } from "./describeResponses.ts"
import { KilnApi } from "./KilnApi.ts"

export interface DocumentOptions {
  /** Where the service is. */
  readonly serverUrl: string
  /** The voices there are. */
  readonly voices: ReadonlyArray<string>
}

/** The declaration of one installation. Described by `OpenApi.fromApi` like the plain one. */
export const apiOf = ({ serverUrl, voices }: DocumentOptions) =>
  KilnApi.annotateMerge(
    OpenApi.annotations({
      servers: [{ url: serverUrl }],
      transform: (spec) => withVoices(describeResponses(spec), voices),
    }),
  )
