import { builtIn as kinds, builtInKinds as allKinds } from "../kinds/builtInKinds.ts"
import type { Kind } from "../kinds/KindTypes.ts"
import { defaultVoices, type Voices } from "../kinds/Voices.ts"

/** The types of a kind, spelled out, because the declarations of this entry point contain no Effect types. */
type Plain<K> =
  K extends Kind<infer Name, infer Types>
    ? Kind<
        Name,
        {
          readonly input: { readonly [Field in keyof Types["input"]]: Types["input"][Field] }
          readonly request: { readonly [Field in keyof Types["request"]]: Types["request"][Field] }
          readonly output: { readonly [Field in keyof Types["output"]]: Types["output"][Field] }
          readonly needs: { readonly all: Types["needs"]["all"]; readonly or: Types["needs"]["or"] }
          readonly upload: NonNullable<Types["upload"]>
        }
      >
    : never

type PlainKinds<Kinds> = {
  readonly [Name in keyof Kinds]: Kinds[Name] extends (voices: Voices) => infer Made
    ? (voices?: Voices) => Plain<Made>
    : Plain<Kinds[Name]>
}

const plain = <Kinds extends object>(all: Kinds): { readonly [Name in keyof Kinds]: PlainKinds<Kinds>[Name] } =>
  Object.fromEntries(
    Object.entries(all).map(([name, kind]) => [
      name,
      typeof kind === "function"
        ? (voices: Voices = defaultVoices) => (kind as (voices: Voices) => unknown)(voices)
        : kind,
    ]),
  ) as never

/** The built-in kinds, by name. The ones that speak are functions of the voices: `builtIn.speechSynthesis()`. */
export const builtIn = plain(kinds)

type Made<K> = K extends (voices?: Voices) => infer Result ? Result : K
/** Any of the built-in kinds. */
export type BuiltInKind = { [Name in keyof typeof builtIn]: Made<(typeof builtIn)[Name]> }[keyof typeof builtIn]

/** Returns all built-in kinds, optionally with other voices. */
export const builtInKinds = (voices: Voices = defaultVoices): ReadonlyArray<BuiltInKind> =>
  allKinds(voices) as ReadonlyArray<object> as ReadonlyArray<BuiltInKind>
