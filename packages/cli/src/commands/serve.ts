import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import { failed } from "../CommandFailed.ts"
import { Json } from "../Output.ts"
import { readGivenSettings } from "../readEnvironment.ts"

export const serveCommand = Command.make("serve", {}, () =>
  Effect.gen(function* () {
    const given = yield* readGivenSettings
    const asJson = yield* Json
    // The other commands start without loading the server.
    const { serve } = yield* Effect.tryPromise({
      try: () => import("../serve/serve.ts"),
      catch: (cause) => failed(`cannot load the server: ${String(cause)}`),
    })
    yield* serve(given, asJson)
  }),
).pipe(Command.withDescription("Run the service; settings come from the environment"))
