import { Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { jobModeOf, type KeyMode, type Principal } from "@kiln/core/domain"
import { keyScopes } from "@kiln/core/kinds"
import { IdGenerator, KeyDirectory, Switchboard } from "@kiln/core/ports"
import { newKey } from "@kiln/http"

/** A key, and whose jobs it makes. */
export interface SeededKey {
  readonly key: string
  readonly owner: Principal
}

export interface SeededKeys {
  readonly live: SeededKey
  readonly sandbox: SeededKey
}

/** What live jobs need to run: a project, a key of each mode, both prices, every switch. */
export const seedStores: Effect.Effect<SeededKeys, unknown, KeyDirectory | Switchboard> = Effect.provide(
  Effect.gen(function* () {
    const directory = yield* KeyDirectory
    const ids = yield* IdGenerator
    const board = yield* Switchboard
    const project = { id: ids.next("prj"), name: "lab" }
    yield* directory.createProject(project)
    const make = Effect.fnUntraced(function* (mode: KeyMode) {
      const wish = { projectId: project.id, mode, scopes: keyScopes, name: null, expiresAt: null }
      const { key, record } = yield* newKey(wish)
      yield* directory.createKey(record)
      const owner: Principal = { keyId: record.id, projectId: project.id, mode: jobModeOf(mode), scopes: keyScopes }
      return { key, owner }
    })
    const audio = { input_characters: "0.001", input_audio_seconds: "0.01", output_tokens: "0.1" }
    yield* board.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: audio })
    yield* board.setPrice({ name: "svc-image", currency: "usd", unitAmounts: { images: "1" } })
    for (const name of ["svc-audio", "svc-image"]) yield* board.activatePrice(name, true)
    for (const name of ["ai", "audio", "images"] as const) yield* board.setSwitch(name, true)
    return { live: yield* make("live"), sandbox: yield* make("test") }
  }),
  Layer.merge(IdGenerator.layer, SecureRandom.layerWebCrypto),
)
