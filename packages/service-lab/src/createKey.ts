import { createHash, randomBytes } from "node:crypto"
import { formatApiKey, type KeyMode } from "@kiln/core/domain"
import { IdGenerator, KeyDirectory } from "@kiln/core/ports"
import * as Effect from "effect/Effect"

/** An API key that exists, with its secret. */
export interface Key {
  readonly secret: string
  readonly id: string
  readonly projectId: `prj_${string}`
  readonly mode: KeyMode
}

export interface NewKey {
  readonly mode?: KeyMode
  readonly scopes?: ReadonlyArray<string>
  /** The project of this key; by default a new one. */
  readonly besides?: Key
  readonly expiresAt?: number
}

/** Creates a key like an operator, by default in a new project. */
export const createKey = Effect.fnUntraced(function* (key: NewKey) {
  const keys = yield* KeyDirectory
  const ids = yield* IdGenerator
  const mode = key.mode ?? "test"
  const projectId = key.besides?.projectId ?? ids.next("prj")
  if (key.besides === undefined) yield* keys.createProject({ id: projectId, name: projectId })
  const secret = formatApiKey(mode, randomBytes(32))
  const record = yield* keys.createKey({
    id: ids.next("key"),
    projectId,
    mode,
    scopes: key.scopes ?? ["audio.create", "images.create"],
    name: null,
    expiresAt: key.expiresAt ?? null,
    secretHash: createHash("sha256").update(secret).digest("hex"),
  })
  if (record === undefined) throw new Error("createKey returned no record")
  return { secret, id: record.id, projectId, mode } satisfies Key
})
