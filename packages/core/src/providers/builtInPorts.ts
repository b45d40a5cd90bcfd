import { image } from "./image.ts"
import type { ProviderPort } from "./ProviderPort.ts"
import { reply } from "./reply.ts"
import { speech } from "./speech.ts"
import { transcription } from "./transcription.ts"
import { voiceTurn } from "./voiceTurn.ts"

/** The built-in provider ports. To add one, add a file and an entry here. */
export const builtInPorts = [transcription, reply, speech, image, voiceTurn] as const
type BuiltInPort = (typeof builtInPorts)[number]

/** The name of a built-in provider port. */
export type ProviderName = BuiltInPort["name"]
export const providerNames: ReadonlyArray<ProviderName> = builtInPorts.map(({ name }) => name)

/** A kind's reference to a port: a built-in one by name, any other by its declaration. */
export type ProviderRef = ProviderName | ProviderPort
export type PortOf<Ref extends ProviderRef> = Ref extends ProviderName
  ? Extract<BuiltInPort, { readonly name: Ref }>
  : Ref
export type NameOf<Ref extends ProviderRef> = Ref extends ProviderPort<infer Name> ? Name : Ref & string
/** The request of a port. */
export type RequestOf<Ref extends ProviderRef> =
  PortOf<Ref> extends ProviderPort<string, infer Request> ? Request : never
/** The checked answer of a port. */
export type AnswerOf<Ref extends ProviderRef> =
  PortOf<Ref> extends ProviderPort<string, never, infer Answer> ? Answer : never

/** Returns the port that a name or a declaration refers to. Throws `TypeError` for an unknown name. */
export const portOf = (ref: ProviderRef): ProviderPort => {
  if (typeof ref !== "string") return ref
  const port = builtInPorts.find(({ name }) => name === ref)
  if (port === undefined)
    throw new TypeError(`unknown provider port "${ref as string}"; known: ${providerNames.join(", ")}`)
  return port
}
