import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Scope from "effect/Scope"
import type { App } from "./app.ts"

/** Milliseconds for which a replaced app is kept, for requests that have begun in it. */
const retireMs = 60_000

/** An app that can be replaced by another one while the server runs. */
export interface ReplaceableApp<Settings, E, R> {
  /** Passes each request to the latest app. */
  readonly app: App
  /** Builds an app and replaces the previous one. If building fails, the previous one stays. */
  readonly replace: (settings: Settings) => Effect.Effect<void, E, R>
}

/** Builds an app, and again for each change of its settings, until the scope closes. */
export const replaceableApp = Effect.fnUntraced(function* <Settings, E, R>(
  build: (settings: Settings) => Effect.Effect<App, E, R | Scope.Scope>,
  settings: Settings,
): Effect.fn.Return<ReplaceableApp<Settings, E, Exclude<R, Scope.Scope>>, E, Exclude<R, Scope.Scope> | Scope.Scope> {
  const parent = yield* Scope.Scope
  const buildIn = Effect.fnUntraced(function* (wanted: Settings) {
    const scope = yield* Scope.fork(parent)
    const app = yield* Effect.onError(Scope.provide(build(wanted), scope), (cause) =>
      Scope.close(scope, Exit.failCause(cause)),
    )
    return { app, scope }
  })
  let current = yield* buildIn(settings)
  const replace = Effect.fnUntraced(function* (wanted: Settings) {
    const next = yield* buildIn(wanted)
    const previous = current
    current = next
    yield* Effect.forkIn(Effect.andThen(Effect.sleep(retireMs), Scope.close(previous.scope, Exit.void)), parent)
  })
  return {
    app: {
      answer: (source) => current.app.answer(source),
      get shutdown() {
        return current.app.shutdown
      },
      isOurs: (source) => current.app.isOurs(source),
    },
    replace,
  }
})
